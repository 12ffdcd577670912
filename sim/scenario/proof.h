// SPDX-License-Identifier: Apache-2.0
// Ties planned layers with explicit rows to the routing they were made for, and proves delivery.
#pragma once

#include <vector>

#include "sim/plan/delivery.h"
#include "sim/planner/iteration/planner.h"

namespace moesim {

/// What the tokens of a layer that was planned with explicit rows chose, on the GPUs of its stage.
/// The layer must outlive it.
LayerRouting routing_of(const PlannedLayer& layer);
/// The same of all layers of a step.
std::vector<LayerRouting> routing_of(const PlannedStep& planned);

/// Runs check_delivery on a step of MoE layers that was made with explicit rows. Throws Error
/// naming layer, token and choice of the first mistakes.
void prove_delivery(const PlannedStep& planned);

/// The same for every layer of any step that `planner` has just planned, layer by layer; each
/// layer's own plan moves what the step moves in it, in every microbatch. GPUs that share the
/// tensors of experts count as if they did not. Returns how many layers of microbatches that
/// differ were proved.
std::size_t prove_each_layer(Planner& planner, const PlannedStep& planned);

}  // namespace moesim
