// SPDX-License-Identifier: Apache-2.0
// One policy of a scenario on all ranks.
#pragma once

#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"
#include "realhw/measure/measured_timeline.h"
#include "realhw/measure/results.h"
#include "realhw/measure/step_source.h"

namespace moesim {

struct MeasureOptions {
  int warmup = 1;     // runs before the runs that count, besides the one that is compared
  int repeats = 5;    // runs that count
  int compared = -1;  // tokens of a rank and layer, -1: all
  MeasuredTimeline* timeline = nullptr;  // on rank 0: takes the median repeat of every step
};

/// Runs a step once, then timed, then once more as when timed but on poisoned memory; the first and
/// the last run are compared with the reference. All ranks together.
MeasuredStep measure_step(Job& job, HardwareBackend& backend, const RealStep& step,
                          const MeasureOptions& options);

/// The step must outlive it.
RealStep real_step(const ExecutableStep& step, const StepsOrigin& origin);

/// Measures every step of a policy, by its number in the source. Times are known only on rank 0,
/// comparisons on all. Throws Unsuitable as the source does.
Measured measure(Job& job, HardwareBackend& backend, StepSource& source, std::size_t policy,
                 const MeasureOptions& options);

}  // namespace moesim
