// SPDX-License-Identifier: Apache-2.0
// Steps of a scenario, planned when they are run.
#pragma once

#include <memory>

#include "realhw/measure/step_source.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// The inputs must be those of the scenario, with one cluster.
std::unique_ptr<StepSource> planned_source(Scenario scenario, Inputs inputs);

}  // namespace moesim
