// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a scenario: every topology x policy x fidelity.
#pragma once

#include <vector>

#include "sim/report/case_report.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// The results of all cases in the order topology, fidelity, policy, computed by `workers`
/// processes; the results do not depend on their number. A process takes one policy on one topology
/// and plans each step once for all fidelities. The inputs must outlive the results. Throws Error
/// with all reasons when no case can run, and Unsuitable for the only one.
std::vector<CaseResult> simulate(const Scenario& scenario, const Inputs& inputs, int workers);

}  // namespace moesim
