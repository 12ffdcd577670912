// SPDX-License-Identifier: Apache-2.0
// A CUDA stream per stream of a plan, marks on them, and what was captured from them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <vector>

#include "realhw/core/kernel_thread.h"
#include "sim/plan/plan.h"

namespace moesim::cuda {

/// Contracts are those of GpuDevice.
class CudaStreams {
 public:
  CudaStreams();
  ~CudaStreams();
  CudaStreams(const CudaStreams&) = delete;

  /// Made when it is first asked for: GPUs have eight queues, and streams that share one wait for
  /// each other.
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
    cudaEvent_t time = nullptr;   // recorded in every run
    cudaEvent_t fence = nullptr;  // orders streams; in a captured run it is no more than an edge
  };
  cudaStream_t origin() const { return streams_[0]; }

  std::array<cudaStream_t, stream_count> streams_{};  // null: not asked for
  std::vector<Mark> marks_;
  std::array<cudaEvent_t, stream_count> forks_{};  // of capture
  std::array<cudaEvent_t, 8> clock_events_{};
  cudaEvent_t clock_event_ = nullptr;  // the one of them ...
  Clock::time_point clock_time_;       // ... that happened then
  bool capturing_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace moesim::cuda
