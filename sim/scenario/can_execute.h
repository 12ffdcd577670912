// SPDX-License-Identifier: Apache-2.0
// Which iterations hardware can execute.
#pragma once

#include "sim/planner/iteration/planned_step.h"
#include "sim/saved/served_layer.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// Throws Error naming what of an iteration hardware cannot execute, and what would do instead.
void check_can_execute(const Scenario& scenario, const MoeModel& model);
/// Throws Unsuitable for an iteration whose experts' parameters travel, or whose rows are narrower
/// than fp32.
void check_can_execute(const PlannedStep& step, const MoeModel& model);
/// Throws Unsuitable for a plan with layers that one kernel exchanges and computes.
void check_can_execute(const Plan& plan);
/// Throws Unsuitable for a shared expert on ranks that are chosen.
void check_can_execute(const LayerDecision& decision);
/// Throws Unsuitable for experts that change places between microbatches.
void check_can_execute(const std::vector<ServedLayer>& layers);

}  // namespace moesim
