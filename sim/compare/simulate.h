// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a scenario: every topology x policy x fidelity.
#pragma once

#include <optional>
#include <vector>

#include "sim/compare/timeline_file.h"
#include "sim/report/bounds_table.h"
#include "sim/report/case_report.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct ComparisonOptions {
  int workers = 1;            // processes; the results do not depend on their number. 0: this one
  bool bounds = false;        // asks for them, too: TimeBounds, and those of the token exchanges
  bool elasticities = false;  // of the first step or iteration
  bool pictures = false;      // what reports draw
  std::optional<TimelineRequest> timeline = {};
  bool may_run_none = false;  // that no case can run is a result, too, and no Error
  std::vector<Fidelity> others = {};  // at which the process simulates beside the scenario's
};

struct ComparisonResult {
  std::vector<CaseResult> cases;     // in the order topology, fidelity, policy
  std::vector<PolicyBounds> bounds;  // of the first step, per topology and policy that can run
};

/// A process takes one policy on one topology and plans each step once for all fidelities. The
/// inputs must outlive the result. Throws Error with all reasons when no case can run, and
/// Unsuitable for the only one.
ComparisonResult simulate(const Scenario& scenario, const Inputs& inputs,
                          const ComparisonOptions& options);

}  // namespace moesim
