// SPDX-License-Identifier: Apache-2.0
// The CUDA streams of a GPU, one for each stream of a plan. You can put marks on them, and capture
// their work as a graph that is replayed with one launch.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <vector>

#include "realhw/core/kernel_thread.h"
#include "realhw/cuda/cuda_owned.h"
#include "sim/plan/plan.h"

namespace moesim::cuda {

/// GpuDevice states the contracts of these functions.
class CudaStreams {
 public:
  CudaStreams();
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;

  /// Creates a CUDA stream only when you first use it. A GPU has eight queues, and streams that
  /// share a queue wait for each other, so there should be no unused ones.
  cudaStream_t operator[](Stream stream);

  void make_marks(std::size_t count);
  void mark(std::size_t mark, Stream stream);
  void wait(std::size_t mark, Stream stream);

  void start_clock();
  bool passed(std::size_t mark) const;
  Clock::time_point time_of(std::size_t mark) const;
  bool idle() const;
  void synchronize() const;

  void begin_capture();
  void end_capture();
  void drop_capture();
  void replay();

 private:
  struct Mark {
    /// Gets a time in every run, also if the run replays a graph.
    OwnedEvent time;
    /// Orders streams. If work is captured, it only becomes an edge of the graph.
    OwnedEvent fence;
  };
  cudaStream_t origin() const { return streams_[0].get(); }

  /// Null if the stream has not been used yet.
  std::array<OwnedStream, stream_count> streams_;
  std::vector<Mark> marks_;
  /// Let the other streams join a capture when it begins, and the origin wait for them at its end.
  std::array<OwnedEvent, stream_count> forks_;
  std::array<OwnedEvent, 8> clock_events_;
  /// The one of clock_events_ whose time on the host's clock is known best, and that time.
  cudaEvent_t clock_event_ = nullptr;
  Clock::time_point clock_time_;
  bool capturing_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace moesim::cuda
