// SPDX-License-Identifier: Apache-2.0
// When GPUs of an iteration worked, exchanged and waited, collected op by op.
#pragma once

#include <array>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/report/intervals.h"
#include "sim/report/iteration_metrics.h"

namespace moesim {

/// One GPU in a stretch of time.
struct GpuWork {
  std::array<Seconds, iteration_part_count> kernels{};
  std::vector<Interval> busy;    // with kernels of the compute stream
  std::vector<Interval> joined;  // to exchanges within the stage
  std::array<std::vector<Interval>, iteration_part_count> moving;
};

/// What lies in one stretch of time, of all GPUs.
class WorkOfGpus {
 public:
  WorkOfGpus(std::size_t gpus, const Interval& window);

  /// `times`: of the op's members.
  void add(const Op& op, const std::vector<Interval>& times);
  /// Puts all that was added where take() finds it.
  void settle() { kernels_run_.settle(busy_); }
  /// Of one GPU, which is forgotten.
  GpuWork take(GpuId gpu);

 private:
  void add_exchange(const Op& op);
  GpuIntervals& moving_of(IterationPart part) { return moving_[static_cast<std::size_t>(part)]; }
  static void add_intervals(GpuIntervals& lists, const Group& group,
                            const std::vector<Interval>& times);

  Interval window_;
  std::array<std::vector<Seconds>, iteration_part_count> kernels_;  // [part][GPU]
  GpuIntervals busy_, joined_;
  std::array<GpuIntervals, iteration_part_count> moving_;  // [part][GPU]
  IntervalRun kernels_run_;
  std::vector<Interval> inside_;  // of the op that is added
};

}  // namespace moesim
