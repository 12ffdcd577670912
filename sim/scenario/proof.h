// SPDX-License-Identifier: Apache-2.0
// Ties a step plan with explicit rows to the routing it was made for, and proves its delivery.
#pragma once

#include <vector>

#include "sim/plan/delivery.h"
#include "sim/policy/step_plan.h"

namespace moesim {

/// What the tokens of every layer chose in a step planned with explicit rows. The plan must outlive
/// it.
std::vector<LayerRouting> routing_of(const StepPlan& planned, const Batch& batch);

/// Runs check_delivery on a plan made with explicit rows. Throws Error naming layer, token and
/// choice of the first mistakes.
void prove_delivery(const StepPlan& planned, const Batch& batch);

}  // namespace moesim
