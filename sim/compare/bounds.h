// SPDX-License-Identifier: Apache-2.0
// moesim compare --bounds: token exchanges alone against the least that any dispatch needs.
#pragma once

#include "sim/plan/backend.h"
#include "sim/report/bounds_table.h"
#include "sim/scenario/inputs.h"

namespace moesim {

/// Of a step that `planner` has just planned from `batch`, layer by layer, each movement alone on
/// `backend`. Throws std::logic_error when one beats its bound.
BoundSums bounds_of(StepPlanner& planner, const StepPlan& planned, const Batch& batch,
                    const ClusterInput& cluster, SimulatedBackend& backend);

}  // namespace moesim
