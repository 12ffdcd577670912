// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/pipeline/layer/combined_layers.h"

#include <algorithm>

namespace moesim {
namespace {

class CombinedOrder {
 public:
  explicit CombinedOrder(const CombinedOptions& options) : options_(options) {}

  /// One step of both passes; a layer below 0 is none.
  void pair(int f, int b) {
    backward(LayerPart::combine, b);
    forward(LayerPart::attention, f);
    backward(LayerPart::mlp, b);
    forward(LayerPart::dispatch, f);
    if (options_.delay_weight_gradients) weight_gradient(b);
    backward(LayerPart::dispatch, b);
    if (options_.early_attention_backward) backward(LayerPart::attention, b);
    forward(LayerPart::mlp, f);
    forward(LayerPart::combine, f);
    if (!options_.early_attention_backward) backward(LayerPart::attention, b);
    if (options_.delay_weight_gradients && b > 0) weight_gradient(b);
  }

  std::vector<LayerPiece> pieces() && {
    if (options_.delay_weight_gradients) weight_gradient(last_layer());
    return std::move(pieces_);
  }

 private:
  int last_layer() const {
    return last_backward_ < 0 ? -1 : pieces_[static_cast<std::size_t>(last_backward_)].layer;
  }

  void forward(LayerPart part, int layer) {
    if (layer < 0) return;
    last_forward_ = add(part, WorkKind::forward, layer, last_forward_);
  }

  void backward(LayerPart part, int layer) {
    if (layer < 0) return;
    const bool whole = lane_of(part) == LayerLane::exchange || !options_.delay_weight_gradients;
    last_backward_ =
        add(part, whole ? WorkKind::backward : WorkKind::input_gradient, layer, last_backward_);
  }

  /// The weight gradient of the piece whose input gradient came last.
  void weight_gradient(int layer) {
    if (layer < 0) return;
    const LayerPart part = pieces_[static_cast<std::size_t>(last_backward_)].part;
    add(part, WorkKind::weight_gradient, layer, last_backward_);
  }

  int add(LayerPart part, WorkKind kind, int layer, int after) {
    pieces_.push_back({.part = part, .kind = kind, .layer = layer, .after = {}});
    if (after >= 0) pieces_.back().after.push_back(after);
    return static_cast<int>(pieces_.size()) - 1;
  }

  const CombinedOptions& options_;
  std::vector<LayerPiece> pieces_;
  int last_forward_ = -1, last_backward_ = -1;
};

}  // namespace

std::vector<LayerPiece> combined_layers(int forward_layers, int backward_layers,
                                        const CombinedOptions& options) {
  const int pairs = std::min(forward_layers, backward_layers);
  CombinedOrder order(options);
  for (int i = 0; i < pairs; ++i) order.pair(i, backward_layers - 1 - i);
  for (int i = pairs; i < backward_layers; ++i) order.pair(-1, backward_layers - 1 - i);
  for (int i = pairs; i < forward_layers; ++i) order.pair(i, -1);
  return std::move(order).pieces();
}

}  // namespace moesim
