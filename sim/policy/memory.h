// SPDX-License-Identifier: Apache-2.0
// What a step's layers take of every GPU's memory. See docs/placement.md.
#pragma once

#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/policy/layer_ops.h"

namespace moesim {

/// One GPU over all replayed layers. What is not replayed (attention weights, embeddings, other
/// layers) is not part of it.
struct GpuMemory {
  Bytes weights, gradients, optimizer;  // of resident experts
  Bytes gathered;     // of two layers in a row: one computes while the next is on its way
  Bytes activations;  // kept for the backward pass by all layers; forward only: of one layer
  Bytes total() const { return weights + gradients + optimizer + gathered + activations; }
};

/// The same for `layers` MoE layers like the `replayed` ones on every GPU. What is gathered, and
/// forward only the activations, are of a layer or two however many there are.
std::vector<GpuMemory> for_layers(std::vector<GpuMemory> memory, int layers, int replayed,
                                  bool backward);

/// Per GPU of a step. Activations: rows at the gate, after dispatch, and of the experts' inputs,
/// inner matrices and outputs.
std::vector<GpuMemory> memory_of(const std::vector<LayerWork>& layers, const MoeModel& model,
                                 const TrainingState& state, bool backward);

/// Throws Unsuitable for the fullest GPU when it needs more than it has, saying by how much, and
/// for which layers where that is not obvious.
void check_memory(const std::vector<GpuMemory>& memory, const GpuModels& gpus,
                  const std::string& policy, const std::string& layers = "");

}  // namespace moesim
