// SPDX-License-Identifier: Apache-2.0
// A stream per lane, marks on them, and what was captured from them.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <vector>

#include "realhw/core/kernel_thread.h"
#include "sim/plan/plan.h"

namespace moesim::cuda {

/// Contracts are those of GpuDevice.
class LaneStreams {
 public:
  LaneStreams();
  ~LaneStreams();
  LaneStreams(const LaneStreams&) = delete;

  cudaStream_t operator[](Lane lane) const { return streams_[static_cast<std::size_t>(lane)]; }

  void make_marks(std::size_t count);
  void mark(std::size_t mark, Lane lane);
  void wait(std::size_t mark, Lane lane);

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
    cudaEvent_t fence = nullptr;  // orders lanes; in a captured run it is no more than an edge
  };
  cudaStream_t origin() const { return streams_[0]; }

  std::array<cudaStream_t, lane_count> streams_{};
  std::vector<Mark> marks_;
  std::array<cudaEvent_t, lane_count> forks_{};  // of capture
  std::array<cudaEvent_t, 8> clock_events_{};
  cudaEvent_t clock_event_ = nullptr;  // the one of them ...
  Clock::time_point clock_time_;       // ... that happened then
  bool capturing_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace moesim::cuda
