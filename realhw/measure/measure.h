// SPDX-License-Identifier: Apache-2.0
// Runs one policy of a scenario on all ranks; writes what ran when as trace events
// (docs/timeline.md).
#pragma once

#include <optional>
#include <string>

#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"
#include "realhw/measure/results.h"
#include "realhw/measure/step_source.h"
#include "sim/base/file_in_parts.h"
#include "sim/report/timeline_events.h"
#include "sim/topology/topology.h"

namespace moesim {

/// All ranks of all steps, policy by policy. `moesim profile import` reads it as it reads what the
/// simulator writes.
class MeasuredTimeline {
 public:
  /// `named`: processes bear their policy's name, because there are several. The cluster must
  /// outlive it. Throws Error if the file cannot be written.
  MeasuredTimeline(const std::string& path, const Topology& cluster, bool named);

  void begin(const std::string& policy);
  void add(const Plan& plan, const Timeline& timeline, int number);
  /// Puts the file where its path says. Throws Error.
  void finish();

 private:
  const Topology& cluster_;
  bool named_;
  int policies_ = 0;
  FileInParts file_;
  TraceEvents events_;
  std::optional<TimelineEvents> policy_;
};

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
