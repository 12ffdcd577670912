// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a scenario: every topology x policy x fidelity.
#pragma once

#include <vector>

#include "sim/report/bounds_table.h"
#include "sim/report/case_report.h"
#include "sim/run/comparison_options.h"
#include "sim/scenario/inputs.h"

namespace moesim {

struct ComparisonResult {
  /// In the order topology, fidelity, policy; of iterations on balanced tokens before those on
  /// recorded ones.
  std::vector<CaseResult> cases;
  std::vector<PolicyBounds> bounds;  // of the first step, per topology and policy that can run
  int signal = 0;                    // that ended it early, else 0: see keep_finished
};

/// A process takes one policy on one topology and plans each step once for all fidelities.
/// Iterations on balanced tokens, if they are asked for, are run with the first policy only, as the
/// others are compared with it. The inputs must outlive the result. Throws Error with all reasons
/// when no case can run, Unsuitable for the only one, and Interrupted if a signal ends it and
/// nothing is kept.
ComparisonResult simulate(const Scenario& scenario, const Inputs& inputs,
                          const ComparisonOptions& options);

}  // namespace moesim
