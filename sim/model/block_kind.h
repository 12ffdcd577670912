// SPDX-License-Identifier: Apache-2.0
// The parts of a model that a pipeline stage may hold.
#pragma once

namespace moesim {

/// In the order in which a token meets them. A multi-token-prediction layer i is mtp, then
/// attention and moe (or dense_ffn) of the layer number model.layers + i, then head.
enum class BlockKind {
  embedding,
  attention,  // of a layer: norm, projections, scores, output
  mamba,      // of a layer, in place of attention: norm, projection, convolution, scan, output
  dense_ffn,  // of a layer: norm, both products
  moe,        // of a layer: norm, router, shared and routed experts
  mtp,        // joins a hidden state with the embedding of the next token
  head        // last norm, logits, loss
};
const char* name_of(BlockKind kind);

}  // namespace moesim
