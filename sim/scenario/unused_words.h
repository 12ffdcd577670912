// SPDX-License-Identifier: Apache-2.0
// What a scenario says and nothing of its inputs heeds.
#pragma once

#include "sim/scenario/inputs.h"

namespace moesim {

/// Adds warnings about changes of GPU models that no cluster has, and about modules of `recompute`
/// of which the model has none.
void warn_of_what_is_unused(const Scenario& scenario, Inputs& inputs);

}  // namespace moesim
