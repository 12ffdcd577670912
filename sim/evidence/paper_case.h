// SPDX-License-Identifier: Apache-2.0
// A policy in a setting of a published table, as it is simulated.
#pragma once

#include <string>

#include "sim/evidence/published.h"
#include "sim/report/metrics.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// One policy, nothing of whose memory is checked: publications say that it fits. `flags` are those
/// of the setting.
Scenario scenario_of(const PaperSetting& setting, std::vector<Override> flags,
                     const PaperVariant& variant);

/// Hash of all files with their changes, and of all else that the scenario says.
std::string hash_of_inputs(const Scenario& scenario, const Inputs& inputs);

/// Simulates the iterations of a scenario of one policy, in this process. Throws Unsuitable where
/// they cannot be.
IterationFigures iteration_figures(const Scenario& scenario, const Inputs& inputs);

}  // namespace moesim
