// SPDX-License-Identifier: Apache-2.0
// Runs the cases of a scenario: every topology x policy x fidelity.
#pragma once

#include <string>
#include <vector>

#include "sim/scenario/inputs.h"

namespace moesim {

/// The results of all cases (JSON of case_json) in the order topology, fidelity, policy, computed
/// by `workers` processes; the results do not depend on their number.
std::vector<std::string> simulate(const Scenario& scenario, const Inputs& inputs, int workers);

}  // namespace moesim
