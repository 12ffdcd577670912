// SPDX-License-Identifier: Apache-2.0
// Events and streams that go with what holds them, also if what comes after them throws.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "realhw/cuda/check.h"

namespace moesim::cuda {

struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using OwnedEvent = std::unique_ptr<CUevent_st, DestroyEvent>;
using OwnedStream = std::unique_ptr<CUstream_st, DestroyStream>;

/// Throws std::runtime_error, as CUDA says.
inline OwnedEvent make_event(unsigned flags) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, flags));
  return OwnedEvent(event);
}

/// Does not wait for the default stream. Throws std::runtime_error, as CUDA says.
inline OwnedStream make_stream(int priority = 0) {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return OwnedStream(stream);
}

}  // namespace moesim::cuda
