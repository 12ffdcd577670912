// SPDX-License-Identifier: Apache-2.0
// The layers of a forward merged with those of the backward of another microbatch, in two lanes:
// while one computes, the tokens of the other travel. As Megatron-Core's combined 1F1B does with
// overlapped all-to-alls (arXiv 2603.07685; NVIDIA/Megatron-LM, model_chunk_schedule_plan.py).
#pragma once

#include <vector>

#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

/// A lane runs its pieces one after the other, in the order in which they are launched; a piece
/// that must wait holds up those behind it.
enum class LayerLane {
  compute,
  exchange,  // all-to-all
};

/// The pieces of a layer, in the order of its forward. Dense layers have no dispatch or combine.
enum class LayerPart {
  attention,  // with norm, router and what prepares the dispatch
  dispatch,
  mlp,  // the experts
  combine,
};

constexpr LayerLane lane_of(LayerPart part) {
  const bool computes = part == LayerPart::attention || part == LayerPart::mlp;
  return computes ? LayerLane::compute : LayerLane::exchange;
}

struct LayerPiece {
  LayerPart part = LayerPart::attention;
  WorkKind kind = WorkKind::forward;  // of an exchange: forward or backward
  int layer = 0;                      // of the model chunk of its pass
  std::vector<int> after = {};        // pieces whose results it needs, by their place in the list
  bool operator==(const LayerPiece&) const = default;
};

struct CombinedOptions {
  /// Weight gradients are pieces of their own, behind what waits for the input gradients. That of
  /// the attention of layer 0 comes last of all: it belongs behind the stage's transfers.
  bool delay_weight_gradients = false;
  /// The backward of an attention before the forward of the MLP that it is paired with, so that its
  /// activations are free earlier.
  bool early_attention_backward = false;
};

/// All pieces in launch order. Layer i of the forward is paired with layer
/// backward_layers - 1 - i of the backward; the layers left over of the longer pass come behind the
/// pairs. Without layers of one pass it is the other pass by itself.
std::vector<LayerPiece> combined_layers(int forward_layers, int backward_layers,
                                        const CombinedOptions& options);

}  // namespace moesim
