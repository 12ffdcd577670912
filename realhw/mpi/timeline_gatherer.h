// SPDX-License-Identifier: Apache-2.0
// When the ops of a step ran, told by one clock.
#pragma once

#include <vector>

#include "realhw/core/kernel_thread.h"
#include "realhw/mpi/session.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// When each op ran on this rank; start after end: it did not.
struct Stamp {
  Clock::time_point start = Clock::time_point::max(), end = Clock::time_point::min();
};

/// The timeline of a step on rank 0 (empty elsewhere) from the stamps of all ranks; time zero is
/// the first start. Clocks of other hosts are set against rank 0's by ping-pongs.
class TimelineGatherer {
 public:
  /// Measures the clocks; all ranks together.
  explicit TimelineGatherer(const MpiSession& mpi);
  Timeline gather(const Plan& plan, const std::vector<Stamp>& stamps) const;

 private:
  const MpiSession& mpi_;
  Clock::time_point zero_;  // about the same moment on all ranks
};

}  // namespace moesim
