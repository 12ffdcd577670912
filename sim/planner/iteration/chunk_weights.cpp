// SPDX-License-Identifier: Apache-2.0
// ChunkPass: weights that travel before parts of the chunk, gradients behind them, and weight
// gradients that are a pass of their own.
#include "sim/planner/iteration/chunk_pass.h"

namespace moesim {

void ChunkPass::sum_gradients(OpChain& chain, const StagePart& part) {
  if (chunk_.sums != nullptr) chunk_.sums->sum(chain, cell_, part, last_);
}

/// While a part runs, the weights of the next one travel.
void ChunkPass::require_weights(std::size_t part, Pass way) {
  if (chunk_.sums == nullptr) return;
  chunk_.sums->require(chain_, cell_, chunk_.stage, chunk_.parts[part], way);
  if (way == Pass::forward ? part + 1 == chunk_.parts.size() : part == 0) return;  // the last one
  const StagePart& next = chunk_.parts[way == Pass::forward ? part + 1 : part - 1];
  const bool without_weights = way == Pass::backward && next.kind == StagePartKind::embedding;
  if (!without_weights) chunk_.sums->fetch(chain_, cell_, next, way);
}

PassPieces ChunkPass::weight_gradients() {
  PassPieces pieces = empty_pass();
  const auto weights = [this](int layer, BlockKind kind) {
    if (chunk_.whole) chunk_.blocks.weight_gradients(apart_chain_, cell_, layer, kind);
  };
  const auto beside = [this, weights](StagePartKind kind) {
    for (const StagePart& part : chunk_.parts) {
      if (part.kind != kind) continue;
      for (const int number : runs_of(kind, Pass::backward)) weights(number, edge_block(kind));
      sum_gradients(apart_chain_, part);
    }
  };
  pieces.begin = [beside] { beside(StagePartKind::head); };
  for (std::size_t i = list_.size(); i-- > 0;) {
    const Layer layer = list_[i];
    auto& list = pieces.layers[i];
    list.push_back({LayerPart::mlp, [this, layer, weights] {
                      if (layer.moe >= 0) return apart_ops_.expert_weight_gradients(layer.moe);
                      if (layer.blocks.ffn) weights(layer.number, *layer.blocks.ffn);
                    }});
    list.push_back({LayerPart::attention, [this, layer, weights] {
                      if (layer.moe >= 0) apart_ops_.other_weight_gradients(layer.moe);
                      const bool coarse = layer.moe >= 0 && !chunk_.whole;
                      if (coarse) apart_ops_.attention_weight_gradients(layer.moe);
                      if (layer.blocks.mixer) weights(layer.number, *layer.blocks.mixer);
                      const bool joins = chunk_.parts[layer.part].kind == StagePartKind::mtp;
                      if (joins) weights(layer.number, BlockKind::mtp);
                      sum_gradients(apart_chain_, chunk_.parts[layer.part]);
                    }});
  }
  pieces.end = [beside] { beside(StagePartKind::embedding); };
  return pieces;
}

}  // namespace moesim
