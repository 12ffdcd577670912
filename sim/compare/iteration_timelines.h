// SPDX-License-Identifier: Apache-2.0
// The iterations of one worker in the file of --timeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/compare/timeline_file.h"
#include "sim/iteration/iteration_planner.h"

namespace moesim {

/// Does nothing where `file` is null. What it is made of must outlive it.
class IterationTimelines {
 public:
  /// `names`: of the cases, one of each fidelity.
  IterationTimelines(const TimelineFile* file, int worker, std::vector<std::string> names,
                     const Topology& topology, const Pipeline& pipeline);

  /// Fidelities in order for each iteration.
  void add(std::size_t fidelity, const IterationPlan& planned, const PricedPlan& priced,
           const Timeline& timeline, int iteration);
  void finish();

 private:
  void open_case(const IterationPlan& planned);

  const TimelineFile* file_;
  int worker_;
  std::vector<std::string> names_;
  const Topology& topology_;
  const Pipeline& pipeline_;
  std::optional<TraceEvents> events_;
  std::vector<TimelineEvents> cases_;  // of each fidelity
};

}  // namespace moesim
