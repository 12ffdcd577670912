// SPDX-License-Identifier: Apache-2.0
// Proof, without any backend, that a plan moves every token where it must go and back.
#pragma once

#include <vector>

#include "sim/plan/assignment.h"
#include "sim/plan/plan.h"

namespace moesim {

/// What one layer's tokens chose: the routing that a plan was made for; tokens in the order of
/// their source ranks, so that shares of an assignment fall as they did when it was planned.
struct LayerRouting {
  int layer = 0;                              // model layer number
  std::vector<GpuId> source;                  // [token]
  std::vector<std::vector<ExpertId>> chosen;  // [token][k]; below 0: a dropped choice
  const Assignment* assignment = nullptr;
};

/// Runs check_plan, then follows the explicit rows of every layer and pass. Each choice reaches the
/// GPU of its slot exactly once, moved by the token-stream exchanges of Stage::dispatch in list
/// order; the expert GEMMs (Stage::experts, one group per slot of their GPU; GEMMs of one type and
/// GPU are parts of one) compute as many rows per slot as chose it and wait for them; each result
/// returns to its source exactly once through Stage::combine, after the GEMMs (weight gradients
/// apart). Rows may be summed on their way back, and a sum is never split again. Rows of an
/// exchange have one size and make up its matrix, the diagonal included; a choice that is served on
/// its own GPU needs no row. In a padded exchange rows of one unit fit into the matrix, and experts
/// may compute padding. Throws Error with every mistake, naming layer, token and choice.
void check_delivery(const Plan& plan, const std::vector<LayerRouting>& routing);

}  // namespace moesim
