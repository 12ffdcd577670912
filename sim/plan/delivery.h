// SPDX-License-Identifier: Apache-2.0
// Proof, without any backend, that a plan moves every token where it must go and back.
#pragma once

#include <vector>

#include "sim/plan/assignment.h"
#include "sim/plan/plan.h"

namespace moesim {

/// What one layer's tokens chose: the routing that a plan was made for.
struct LayerRouting {
  int layer = 0;                              // model layer number
  std::vector<GpuId> source;                  // [token]
  std::vector<std::vector<ExpertId>> chosen;  // [token][k]
  const Assignment* assignment = nullptr;
};

/// Follows the explicit rows of every layer and pass: each choice reaches the GPU of its slot
/// exactly once before the expert GEMM, whose rows per expert match, and each result returns to
/// its source exactly once. Also runs check_plan. Throws Error naming layer, token and choice.
void check_delivery(const Plan& plan, const std::vector<LayerRouting>& routing);

}  // namespace moesim
