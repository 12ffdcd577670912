// SPDX-License-Identifier: Apache-2.0
// The steps of one worker in the file of --timeline.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/planner/iteration/planner.h"
#include "sim/run/timeline_file.h"

namespace moesim {

/// Does nothing if `file` is null. What it is made of must outlive it.
class StepTimelines {
 public:
  /// `names`: of the cases, one of each fidelity.
  StepTimelines(const TimelineFile* file, int worker, std::vector<std::string> names,
                const Topology& topology, const Planner& planner);

  /// Fidelities in order for the `index`-th step, whose name is `title`.
  void add(std::size_t fidelity, const PlannedStep& planned, const PricedPlan& priced,
           const Timeline& timeline, int index, const std::string& title);
  void finish();

 private:
  void open_case(const PlannedStep& planned);
  void add_memory(std::size_t fidelity, const PlannedStep& planned, const Timeline& timeline);

  const TimelineFile* file_;
  int worker_;
  std::vector<std::string> names_;
  const Topology& topology_;
  const Planner& planner_;
  std::optional<TraceEvents> events_;
  std::vector<TimelineEvents> cases_;  // of each fidelity
};

}  // namespace moesim
