// SPDX-License-Identifier: Apache-2.0
// GPUs that read a byte in a nanosecond, and kernels that only read.
#pragma once

#include <memory>

#include "sim/model/gpu_model.h"
#include "sim/model/kernel.h"

namespace moesim::test {

inline GpuModels gpus(int count) {
  auto model = std::make_shared<GpuModel>();
  model->memory_bandwidth = BytesPerSecond(1e9);
  return {static_cast<std::size_t>(count), model};
}

inline Kernel reads(std::int64_t bytes) { return MemoryBound{Bytes(bytes), Bytes(0)}; }

}  // namespace moesim::test
