// SPDX-License-Identifier: Apache-2.0
// When the ops of a step ran, told by one clock.
#pragma once

#include <vector>

#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// The timeline of a step on rank 0 (empty elsewhere) from the stamps of all ranks; time zero is
/// the first start. Clocks of other hosts are set against rank 0's by ping-pongs.
class TimelineGatherer {
 public:
  /// Measures the clocks; all ranks together.
  explicit TimelineGatherer(Job& job);
  Timeline gather(const Plan& plan, const std::vector<Stamp>& stamps) const;

 private:
  Job& job_;
  Clock::time_point zero_;  // about the same moment on all ranks
};

}  // namespace moesim
