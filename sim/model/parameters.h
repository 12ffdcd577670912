// SPDX-License-Identifier: Apache-2.0
// The parameters of a whole model, by what holds them and by how a grid of GPUs divides them.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/model/moe_model.h"

namespace moesim {

struct Parameters {
  std::int64_t embedding = 0;
  std::int64_t attention = 0;  // with its biases, the norms of its queries and keys, and sinks
  std::int64_t mamba = 0;      // of all that Mamba mixers learn, but the norms before them
  std::int64_t norms = 0;      // of layers, and the last one
  std::int64_t dense_ffn = 0;
  std::int64_t router = 0;
  std::int64_t shared = 0;
  std::int64_t routed = 0;
  std::int64_t mtp = 0;       // whole multi-token-prediction layers
  std::int64_t head = 0;      // 0 if it is the embedding's weights
  std::int64_t main() const;  // without mtp, as models are published
  std::int64_t total() const { return main() + mtp; }
};

/// All parameters. Throws Error when the file describes no whole model (as all functions here).
Parameters parameters_of(const MoeModel& model);
/// Parameters that one token meets: top_k of the routed experts.
Parameters active_parameters_of(const MoeModel& model);

/// The blocks of one layer in their order; either may be missing in layers of a hybrid.
struct LayerBlocks {
  std::optional<BlockKind> mixer;  // attention or mamba
  std::optional<BlockKind> ffn;    // moe or dense_ffn
};
LayerBlocks blocks_of_layer(const MoeModel& model, int layer);

/// A block's parameters by how they are divided: a GPU holds split / tp + whole + routed / ep.
struct BlockParameters {
  std::int64_t split = 0;  // over the tensor-parallel group
  std::int64_t whole = 0;  // on each of its GPUs: norms, router, MLA's projections down
  std::int64_t routed = 0;
  std::int64_t total() const { return split + whole + routed; }
};

/// Parameters of the block of one layer; of embedding and head, whatever the layer. A tied head has
/// only its norm: it shares the embedding's weights (a stage that has both not, has a copy of
/// them).
BlockParameters block_parameters(const MoeModel& model, int layer, BlockKind kind);

/// The number of the layer that this one is like: a multi-token-prediction layer is like the last.
int kind_of_layer(const MoeModel& model, int layer);

/// Throws Error with what a whole model's file would say and this one does not.
void require_whole(const MoeModel& model);

}  // namespace moesim
