// SPDX-License-Identifier: Apache-2.0
// What MoE layers take of every GPU's memory, without the rest of the model. See docs/placement.md.
#pragma once

#include <vector>

#include "sim/planner/iteration/planned_step.h"

namespace moesim {

/// Per GPU of a step, over its layers. What is not replayed (attention weights, embeddings, other
/// layers) is not part of it.
///  - gathered: of two layers in a row, as one computes while the next is on its way;
///  - activations: rows at the gate, after dispatch, and of the experts' inputs, inner matrices and
///    outputs, kept for the backward pass by all layers; forward only: of one layer. Fused kernels
///    keep less (docs/placement.md).
MemoryPeaks memory_of(const std::vector<PlannedLayer>& layers, const MoeModel& model,
                      const TrainingState& state, bool backward);

/// The same for `layers` MoE layers like the `replayed` ones on every GPU. What is gathered, and
/// forward only the activations, are of a layer or two however many there are.
MemoryPeaks for_layers(MemoryPeaks memory, int layers, int replayed, bool backward);

}  // namespace moesim
