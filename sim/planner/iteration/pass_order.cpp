// SPDX-License-Identifier: Apache-2.0
// The order in which the pieces of passes are added.
#include <initializer_list>

#include "sim/planner/iteration/chunk_pass.h"

namespace moesim {

void add_pass(const PassPieces& pass, Pass way) {
  pass.begin();
  for (std::size_t i = 0; i < pass.layers.size(); ++i) {
    const std::size_t layer = way == Pass::forward ? i : pass.layers.size() - 1 - i;
    for (const PassPiece& piece : pass.layers[layer]) piece.add();
  }
  pass.end();
}

void add_merged(const PassPieces& forward, const PassPieces& backward, const PassPieces* weights) {
  forward.begin();
  backward.begin();
  const auto order = combined_layers(static_cast<int>(forward.layers.size()),
                                     static_cast<int>(backward.layers.size()),
                                     {.delay_weight_gradients = weights != nullptr});
  if (weights != nullptr) weights->begin();
  for (const LayerPiece& at : order) {
    const PassPieces& pass = at.kind == WorkKind::forward           ? forward
                             : at.kind == WorkKind::weight_gradient ? *weights
                                                                    : backward;
    for (const PassPiece& piece : pass.layers[static_cast<std::size_t>(at.layer)]) {
      if (piece.part == at.part) piece.add();
    }
  }
  forward.end();
  backward.end();
  if (weights != nullptr) weights->end();
}

void add_interleaved(const std::vector<PassPieces>& parts) {
  const auto add = [&](std::size_t layer, std::initializer_list<LayerPart> wanted) {
    for (const PassPieces& part : parts) {
      for (const LayerPart each : wanted) {
        for (const PassPiece& piece : part.layers[layer]) {
          if (piece.part == each) piece.add();
        }
      }
    }
  };
  for (const PassPieces& part : parts) part.begin();
  for (std::size_t layer = 0; layer < parts.front().layers.size(); ++layer) {
    add(layer, {LayerPart::attention, LayerPart::dispatch});
    add(layer, {LayerPart::mlp, LayerPart::combine});
  }
  for (const PassPieces& part : parts) part.end();
}

}  // namespace moesim
