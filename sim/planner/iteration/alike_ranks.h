// SPDX-License-Identifier: Apache-2.0
// Whether forced balance can give all ranks of a grid the same to do.
#pragma once

#include <optional>

#include "sim/planner/iteration/balanced_trace.h"
#include "sim/planner/iteration/spec.h"
#include "sim/topology/topology.h"

namespace moesim {

/// How the ranks of an iteration choose alike; none if hosts, groups of the gate and EP groups do
/// not divide each other, or shares of a microbatch are unequal.
std::optional<AlikeRanks> alike_ranks(const IterationShape& shape, const IterationSpec& spec,
                                      const Topology& topology, const MoeModel& model);

}  // namespace moesim
