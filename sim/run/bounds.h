// SPDX-License-Identifier: Apache-2.0
// moesim compare --bounds: token exchanges by themselves against the least that any dispatch needs.
#pragma once

#include "sim/plan/backend.h"
#include "sim/report/bounds_table.h"
#include "sim/scenario/policy_planner.h"

namespace moesim {

/// Bounds of the first microbatch of a step that `planner` has just planned, layer by layer, each
/// movement by itself at `port`. Throws std::logic_error when one beats its bound.
BoundSums bounds_of(Planner& planner, const PlannedStep& planned, const ClusterInput& cluster,
                    const Scenario& scenario);

/// A pipeline stage as a cluster of its own; `cluster` itself if there is one stage.
ClusterInput stage_of(const Planner& planner, int stage, const ClusterInput& cluster);

}  // namespace moesim
