// SPDX-License-Identifier: Apache-2.0
#include "sim/model/parameters.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"

namespace moesim {
namespace {

BlockParameters operator+(const BlockParameters& a, const BlockParameters& b) {
  return {a.split + b.split, a.whole + b.whole, a.routed + b.routed};
}

/// Biases of column-parallel projections are split as their columns; that of the output is not.
BlockParameters gqa_parameters(const AttentionShape& shape, std::int64_t hidden) {
  BlockParameters p{shape.projections(hidden), hidden, 0};
  if (shape.bias) p.split += shape.query_width() + shape.key_width() + shape.value_width();
  if (shape.output_bias) p.whole += hidden;
  if (shape.sinks) p.split += shape.heads;
  if (shape.qk_norm) p.whole += std::int64_t{2} * shape.head_dim;
  return p;
}

/// The projections down to the compressed vectors are whole on every GPU, as are their norms.
BlockParameters mla_parameters(const AttentionShape& shape, std::int64_t hidden) {
  const std::int64_t down = hidden * (shape.q_rank + shape.kv_rank + shape.rope_dim);
  BlockParameters p{shape.projections(hidden) - down, down + hidden, 0};
  p.whole += shape.q_rank + shape.kv_rank;
  if (shape.bias) p.whole += shape.q_rank + shape.kv_rank + shape.rope_dim;
  if (shape.output_bias) p.whole += hidden;
  if (shape.sinks) p.split += shape.heads;
  return p;
}

/// What comes before the heads is whole on every GPU.
BlockParameters compressed_parameters(const AttentionShape& shape, const MoeModel& model) {
  const std::int64_t down = model.hidden * (std::int64_t{1} * shape.q_rank + shape.head_dim);
  BlockParameters p{shape.projections(model.hidden) - down, down + model.hidden, 0};
  p.whole += shape.q_rank + shape.head_dim;
  if (shape.sinks) p.split += shape.heads;
  return p;
}

/// In addition to the projections: the convolution, one decay and one time step per value head, and
/// the norm of a head's output.
BlockParameters linear_parameters(const LinearAttention& linear, std::int64_t hidden) {
  const std::int64_t projections = hidden * (linear.projected() + linear.values());
  return {projections + linear.convolved() * linear.conv + std::int64_t{2} * linear.value_heads,
          hidden + linear.value_dim, 0};
}

BlockParameters attention_parameters(const MoeModel& model, int layer) {
  const AttentionShape& shape = *model.attention->shape;
  const int kind = kind_of_layer(model, layer);
  if (shape.is_linear(kind)) return linear_parameters(*shape.linear, model.hidden);
  BlockParameters p = shape.kind == AttentionKind::gqa   ? gqa_parameters(shape, model.hidden)
                      : shape.kind == AttentionKind::mla ? mla_parameters(shape, model.hidden)
                                                         : compressed_parameters(shape, model);
  p.whole +=
      shape.indexer_weights(kind, model.hidden) + shape.compressor_weights(kind, model.hidden);
  return p;
}

/// Heads, groups and their channels are divided; the norm before them is not.
BlockParameters mamba_parameters(const MoeModel& model) {
  return {model.mamba->parameters(model.hidden), model.hidden, 0};
}

std::int64_t ffn_parameters(const MoeModel& model, std::int64_t width) {
  return width * model.expert_matrices * model.hidden;
}

std::int64_t router_parameters(const MoeModel& model) {
  return std::int64_t{1} * model.experts * (model.hidden + (model.router_bias ? 1 : 0));
}

std::int64_t shared_parameters(const MoeModel& model) {
  return ffn_parameters(model, std::int64_t{1} * model.shared_experts * model.shared_ffn) +
         (model.shared_gate ? model.hidden : 0);
}

/// Parameters of one expert, with its biases.
std::int64_t routed_parameters(const MoeModel& model) {
  const std::int64_t biases =
      std::int64_t{model.expert_matrices - 1} * model.expert_ffn + model.routed_width();
  return model.expert_parameters() + (model.expert_bias ? biases : 0);
}

BlockParameters moe_parameters(const MoeModel& model, std::int64_t experts) {
  const std::int64_t gate = model.shared_gate ? model.hidden : 0;
  return {shared_parameters(model) - gate,
          model.hidden + router_parameters(model) + gate + model.latent_parameters(),
          routed_parameters(model) * experts};
}

/// Adds the block of a layer; its norm, as wide as the model, by itself.
void add_block(Parameters& p, const MoeModel& model, int layer, BlockKind block,
               std::int64_t experts) {
  p.norms += model.hidden + model.mixing_parameters();
  if (block == BlockKind::moe) {
    p.router += router_parameters(model);
    p.shared += shared_parameters(model) + model.latent_parameters();
    p.routed += routed_parameters(model) * experts;
    return;
  }
  const std::int64_t own =
      block_parameters(model, layer, block).total() - model.hidden - model.mixing_parameters();
  if (block == BlockKind::attention) p.attention += own;
  if (block == BlockKind::mamba) p.mamba += own;
  if (block == BlockKind::dense_ffn) p.dense_ffn += own;
}

Parameters count_parameters(const MoeModel& model, std::int64_t experts) {
  require_whole(model);
  const std::int64_t words = std::int64_t{1} * model.vocabulary * model.hidden;
  Parameters p;
  p.embedding = words;
  p.head = model.tied_embeddings ? 0 : words;
  p.norms = model.hidden;  // the last one
  for (int layer = 0; layer < model.layers + model.mtp; ++layer) {
    const LayerBlocks blocks = blocks_of_layer(model, layer);
    if (layer < model.layers) {
      if (blocks.mixer) add_block(p, model, layer, *blocks.mixer, experts);
      if (blocks.ffn) add_block(p, model, layer, *blocks.ffn, experts);
      continue;
    }
    const bool moe = blocks.ffn == BlockKind::moe;
    const BlockParameters ffn =
        moe ? moe_parameters(model, experts) : block_parameters(model, layer, BlockKind::dense_ffn);
    const BlockParameters join = block_parameters(model, layer, BlockKind::mtp);
    const BlockParameters attention = block_parameters(model, layer, BlockKind::attention);
    p.mtp += (attention + ffn + join).total() + model.hidden;
    if (moe) p.mtp += model.mixing_parameters();
  }
  return p;
}

}  // namespace

std::int64_t Parameters::main() const {
  return embedding + attention + mamba + norms + dense_ffn + router + shared + routed + head;
}

int kind_of_layer(const MoeModel& model, int layer) { return std::min(layer, model.layers - 1); }

LayerBlocks blocks_of_layer(const MoeModel& model, int layer) {
  if (model.pattern.empty() || layer >= model.layers) {  // of a hybrid, too, MTP is "*E"
    return {BlockKind::attention,
            model.is_moe_layer(layer) ? BlockKind::moe : BlockKind::dense_ffn};
  }
  const BlockKind only = model.pattern[static_cast<std::size_t>(layer)];
  const bool mixes = only == BlockKind::attention || only == BlockKind::mamba;
  return mixes ? LayerBlocks{only, {}} : LayerBlocks{{}, only};
}

void require_whole(const MoeModel& model) {
  const std::string missing = model.missing_of_whole();
  if (missing.empty()) return;
  throw Error(fmt::format("the model '{}' is incomplete: its file lacks {}", model.name, missing),
              "add them, or choose a model that has them (models/README.md)");
}

Parameters parameters_of(const MoeModel& model) { return count_parameters(model, model.experts); }
Parameters active_parameters_of(const MoeModel& model) {
  return count_parameters(model, model.top_k);
}

namespace {

BlockParameters without_mixing(const MoeModel& model, int layer, BlockKind kind) {
  const std::int64_t hidden = model.hidden;
  const std::int64_t words = model.vocabulary * hidden;
  switch (kind) {
    case BlockKind::embedding:
      return {words, 0, 0};
    case BlockKind::attention:
      return attention_parameters(model, layer);
    case BlockKind::mamba:
      return mamba_parameters(model);
    case BlockKind::dense_ffn:
      return {ffn_parameters(model, model.dense_ffn), hidden, 0};
    case BlockKind::moe:
      return moe_parameters(model, model.experts);
    case BlockKind::mtp:
      return {2 * hidden * hidden, 2 * hidden, 0};
    case BlockKind::head:
      return {model.tied_embeddings ? 0 : words, hidden, 0};
  }
  return {};
}

}  // namespace

BlockParameters block_parameters(const MoeModel& model, int layer, BlockKind kind) {
  require_whole(model);
  BlockParameters p = without_mixing(model, layer, kind);
  if (kind != BlockKind::embedding && kind != BlockKind::mtp && kind != BlockKind::head) {
    p.whole += model.mixing_parameters();
  }
  return p;
}

}  // namespace moesim
