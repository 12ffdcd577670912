// SPDX-License-Identifier: Apache-2.0
#include "sim/model/model_flops.h"

#include "sim/model/parameters.h"

namespace moesim {
namespace {

/// Flop of one token's product with so many weights, forward and for both gradients. Each of these
/// three multiplies and adds once per weight.
double flop_of(std::int64_t weights) { return 6.0 * static_cast<double>(weights); }

/// One token's products of queries with keys and of scores with values, in a full or window layer.
double score_flop(const AttentionShape& shape, int kind, const FlopCount& count) {
  AttentionShape counted = shape;
  if (!count.windows) counted.window = 0;
  // A token sees 1 ... sequence keys. Megatron takes sequence / 2 as the mean.
  const double half = static_cast<double>(count.sequence) / 2;
  const double keys = counted.keys_of(kind, half);
  const double scores = flop_of(shape.score_width()) * (count.causal ? keys : 2 * keys);
  if (!shape.has_indexer(kind)) return scores;
  return scores + flop_of(shape.indexer->width()) * shape.indexed_keys(kind, half);
}

/// One token's update of the states and its look-up in them: four products of a state's size.
double state_flop(const LinearAttention& linear) {
  return flop_of(4 * linear.values() * linear.value_dim + linear.conv * linear.convolved());
}

void add_attention(ModelFlops& flops, const MoeModel& model, int layer, const FlopCount& count) {
  const AttentionShape& shape = *model.attention->shape;
  const int kind = kind_of_layer(model, layer);
  if (shape.is_linear(kind)) {
    flops.projections +=
        flop_of(model.hidden * (shape.linear->projected() + shape.linear->values()));
    flops.scores += state_flop(*shape.linear);
  } else {
    flops.projections +=
        flop_of(model.attention->parameters + shape.indexer_weights(kind, model.hidden) +
                shape.compressor_weights(kind, model.hidden));
    flops.scores += score_flop(shape, kind, count);
  }
}

void add_mamba_mixer(ModelFlops& flops, const MambaShape& shape, std::int64_t hidden) {
  flops.projections += flop_of(shape.projections(hidden));
  flops.scores +=
      flop_of(shape.group_products() + shape.head_products() + shape.conv * shape.convolved());
}

void add_ffn(ModelFlops& flops, const MoeModel& model, BlockKind ffn, const FlopCount& count) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t weights_per_width = model.expert_matrices * hidden;
  if (ffn == BlockKind::dense_ffn) {
    flops.ffn += flop_of(weights_per_width * model.dense_ffn);
    return;
  }
  if (count.router) flops.router += flop_of(hidden * model.experts);
  flops.shared += flop_of(weights_per_width * model.shared_experts * model.shared_ffn);
  flops.shared += flop_of(model.latent_parameters());
  flops.routed += flop_of(model.expert_parameters() * model.top_k);
}

}  // namespace

ModelFlops training_flops(const MoeModel& model, const FlopCount& count) {
  require_whole(model);
  const std::int64_t hidden = model.hidden;
  const int mtp = count.mtp ? model.mtp : 0;
  ModelFlops flops;
  for (int layer = 0; layer < model.layers + mtp; ++layer) {
    const LayerBlocks blocks = blocks_of_layer(model, layer);
    if (blocks.mixer == BlockKind::mamba) add_mamba_mixer(flops, *model.mamba, hidden);
    if (blocks.mixer == BlockKind::attention) add_attention(flops, model, layer, count);
    if (blocks.ffn) add_ffn(flops, model, *blocks.ffn, count);
  }
  flops.mtp = flop_of(2 * hidden * hidden * mtp);
  flops.head = flop_of(hidden * model.vocabulary * (1 + mtp));
  return flops;
}

}  // namespace moesim
