// SPDX-License-Identifier: Apache-2.0
// The best placement and routing of small cases, as a bar for the planner. Built with GLPK.
#pragma once

#include <vector>

#include "sim/mechanism/placement/fsep/cost.h"

namespace moesim::fsep {

/// An optimum of the integer program.
struct ExactPlan {
  SlotTable slots;                  // without duplicates on a rank, ascending
  std::vector<LoadMatrix> to_rank;  // per destination: token-slots from each source for each expert
  Cost cost;
};

/// Solves LAER-MoE's exact formulation (`linear_programming_solve` in its repository): which C
/// different experts each rank holds, and where every source's token-slots go, routed freely
/// instead of by lite routing, so that the planner's cost is least within the relative gap.
/// Upstream stops at a gap of 5 % and counts three forward passes, which is
/// CostParameters::activation_checkpointing = false. Experts without load may have no slot. Time
/// grows exponentially with slots: for tens of slots at most. Throws Error when the shapes differ
/// or C > E, std::runtime_error when the solver fails.
ExactPlan exact_plan(const LoadMatrix& loads, const SlotGrid& grid,
                     const CostParameters& parameters, double relative_gap = 0);

}  // namespace moesim::fsep
