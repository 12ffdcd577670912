// SPDX-License-Identifier: Apache-2.0
// Ties a step plan with explicit rows to the routing it was made for, and proves its delivery.
#pragma once

#include <vector>

#include "sim/policy/step_plan.h"

namespace moesim {

/// Runs check_delivery on a plan made with explicit rows. Throws Error naming layer, token and
/// choice of the first mistakes.
void prove_delivery(const StepPlan& planned, const Batch& batch);

}  // namespace moesim
