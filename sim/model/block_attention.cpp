// SPDX-License-Identifier: Apache-2.0
// The steps of an attention block.
#include <cmath>

#include "sim/model/block_steps.h"

namespace moesim {
namespace {

constexpr auto layernorm = RecomputeModule::layernorm;
constexpr auto core_attn = RecomputeModule::core_attn;
constexpr auto mla_up_proj = RecomputeModule::mla_up_proj;
constexpr auto attn_norm = OffloadModule::attn_norm;
constexpr auto qkv_linear = OffloadModule::qkv_linear;
constexpr auto scores_inputs = OffloadModule::core_attn;
constexpr int statistics_bytes = 4;  // of a softmax: the logarithm of its sum, fp32

BlockStep scores_step(const MoeModel& model, const StepList& list, DataType type, double keys) {
  const AttentionShape& shape = *model.attention->shape;
  const bool mla = shape.kind == AttentionKind::mla;
  AttentionHeads heads{static_cast<int>(list.split(shape.heads)),
                       static_cast<int>(list.split(shape.kv_heads)),
                       mla ? shape.nope_dim + shape.rope_dim : shape.head_dim,
                       mla ? shape.value_dim : shape.head_dim,
                       type,
                       Pass::forward};
  const FusedAttention forward{list.all(), std::llround(keys), heads};
  heads.pass = Pass::backward;
  const FusedAttention backward{list.all(), std::llround(keys), heads};
  return {OpKind::attention_scores, forward, backward, MemoryBound{}, {core_attn}};
}

/// Delta rule: four products of a head's state and a row per token; backward twice as many.
BlockStep state_step(const MoeModel& model, std::int64_t tokens, std::int64_t values) {
  const auto products = [&](std::int64_t factor) {
    return GroupedGemm{
        {tokens}, factor * model.attention->shape->linear->value_dim, values, model.activations};
  };
  return {OpKind::attention_scores, products(4), products(8), MemoryBound{}, {full_layer}};
}

/// What the kernels of the rule in chunks pass each other through memory: queries and keys for
/// every value head (k), values (v), triangles (a, first in fp32) and states of chunks. Kernel by
/// kernel of chunk_gated_delta_rule (fla-org/flash-linear-attention 0315a70e): the backward pass
/// computes w, u and the states again. Decays and rates, one number per head, are left out.
void add_chunks(StepList& list, const LinearAttention& linear) {
  constexpr std::int64_t chunk = 64;  // tokens
  const std::int64_t heads = list.split(linear.value_heads);
  const std::int64_t k = heads * linear.key_dim, v = heads * linear.value_dim;
  const std::int64_t a = heads * chunk, states = k * linear.value_dim / chunk;
  list.memory(OpKind::attention_scores, list.all(),
              {6 * k + 3 * v + 3 * a + states, k + 3 * v + 3 * a + states,
               15 * k + 10 * v + 2 * a + 2 * states, 6 * k + 5 * v + 2 * states},
              {full_layer});
}

/// In one kernel; with YaRN's factor, which Transformer Engine's does not have, as PyTorch runs
/// Megatron-Core's _apply_rotary_pos_emb_bshd (rope_utils.py of NVIDIA/Megatron-LM 00c51e13):
/// products by cosine and sine, halves negated and joined, their sum, joined with an empty rest;
/// backward the same but for joins, a gradient of zeros for the rest, and two sums.
void add_rotary(StepList& list, std::int64_t width, bool scaled) {
  StepList::Widths widths{width, width, width, width};
  if (scaled) widths = {13 * width / 2, 11 * width / 2, 15 * width / 2, 13 * width / 2};
  list.memory(projections, list.all(), widths, {full_layer});
}

void add_gqa(StepList& list, const AttentionShape& shape, std::int64_t hidden) {
  const std::int64_t query = list.split(shape.query_width());
  const std::int64_t key = list.split(shape.key_width());
  const std::int64_t value = list.split(shape.value_width());
  const std::int64_t gate = shape.output_gate ? query : 0;
  list.linear(projections, list.all(), query + key + value + gate, hidden, {full_layer});
  if (shape.qk_norm) {
    list.norm(projections, list.all(), query + key, {full_layer});
    list.keep(list.all(), query + key, list.element(), {full_layer}, {qkv_linear});  // before it
  }
  add_rotary(list, query + key, shape.yarn);
  list.keep(list.all(), query + key + value, list.element(), {full_layer}, {scores_inputs});
}

void add_mla(StepList& list, const AttentionShape& shape, std::int64_t hidden) {
  const std::int64_t heads = list.split(shape.heads);
  const std::int64_t query = list.split(shape.query_width());
  const std::int64_t up = heads * (shape.nope_dim + shape.value_dim);
  const std::int64_t rotated = heads * shape.rope_dim;
  const Recompute again{mla_up_proj};
  // The projections down see the GPU's own rows; the group gathers their narrow results.
  if (shape.q_rank > 0) {
    list.linear(projections, list.own(), shape.q_rank, hidden, {full_layer});
    list.norm(projections, list.own(), shape.q_rank, again);
    list.linear(projections, list.all(), query, shape.q_rank, again);
    list.keep(list.own(), shape.q_rank, list.element(), {full_layer}, {qkv_linear});
    list.keep_input(list.own(), shape.q_rank, again, {qkv_linear});
  } else {
    list.linear(projections, list.all(), query, hidden, again);
  }
  list.linear(projections, list.own(), shape.kv_rank + shape.rope_dim, hidden, {full_layer});
  list.norm(projections, list.own(), shape.kv_rank, again);
  list.linear(projections, list.all(), up, shape.kv_rank, again);
  list.keep(list.own(), shape.kv_rank + shape.rope_dim, list.element(), {full_layer}, {qkv_linear});
  list.keep_input(list.own(), shape.kv_rank, again, {qkv_linear});
  // Rotary embedding, and keys and values joined from their parts.
  const std::int64_t read = rotated + up + shape.rope_dim, written = 2 * rotated + up;
  list.memory(projections, list.all(), {read, written, written, read}, again);
  list.keep(list.all(), 2 * query + heads * shape.value_dim, list.element(), again,
            {scores_inputs});
}

/// Projection, convolution and activation, states, gated norm.
void add_linear_attention(StepList& list, const LinearAttention& linear, std::int64_t hidden) {
  const std::int64_t projected = list.split(linear.projected());
  const std::int64_t convolved = list.split(linear.convolved());
  list.linear(projections, list.all(), projected, hidden, {full_layer});
  list.memory(projections, list.all(), {convolved, convolved, 2 * convolved, convolved},
              {full_layer});
  list.keep(list.all(), projected + convolved, list.element(), {full_layer});
}

void add_output(StepList& list, std::int64_t hidden, std::int64_t width, bool gated,
                const Offload& moved_by) {
  // Of the scores' own backward, and of the product's.
  list.keep_both(list.all(), width, {full_layer}, moved_by);
  if (gated) {
    list.memory(OpKind::attention_output, list.all(), {2 * width, width, 3 * width, 2 * width},
                {full_layer});
    list.keep(list.all(), 2 * width, list.element(), {full_layer});  // gate and product
  }
  list.linear(OpKind::attention_output, list.all(), hidden, width, {full_layer});
}

}  // namespace

void add_attention(StepList& list, const MoeModel& model, int layer, const BlockShard& shard) {
  const AttentionShape& shape = *model.attention->shape;
  const int kind = kind_of_layer(model, layer);
  const bool linear = shape.is_linear(kind), mla = shape.kind == AttentionKind::mla && !linear;
  // A norm before plain projections is part of their kernel, which recomputation does not split.
  const Recompute norm_again = mla ? Recompute{layernorm} : Recompute{full_layer};
  if (!starts(model, layer) || list.has_streams()) list.residual(model.hidden, {full_layer});
  list.norm(OpKind::norm, list.own(), model.hidden, norm_again);
  // Modules of attention by products of queries and keys, with one residual stream.
  const bool moves = !linear && !shape.compresses() && !list.has_streams();
  const Offload moved = moves ? Offload{qkv_linear} : Offload{};
  list.keep_stream(model.hidden, {}, moves && mla ? Offload{attn_norm} : moved);  // layer's input
  list.keep_input(list.own(), model.hidden, norm_again, moved);
  if (linear) {
    const std::int64_t values = list.split(shape.linear->values());
    add_linear_attention(list, *shape.linear, model.hidden);
    add_chunks(list, *shape.linear);
    list.step(state_step(model, list.all(), values));
    return add_output(list, model.hidden, values, true, {});
  }
  const auto attended = static_cast<double>(shard.attended);
  if (shape.compresses()) {
    add_compressed(list, model, kind);
  } else if (mla) {
    add_mla(list, shape, model.hidden);
  } else {
    add_gqa(list, shape, model.hidden);
  }
  add_indexer(list, model, kind, attended);
  const double keys = shape.keys_of(kind, attended);
  const bool quantized = shard.gemm_types.parts.has(GemmPart::scores);
  const DataType type =
      quantized ? shard.gemm_types.of(GemmPart::scores, layer) : model.activations;
  list.step(scores_step(model, list, type, keys));
  list.keep(list.all(), list.split(shape.heads), statistics_bytes, {core_attn});
  if (shape.compresses()) return add_grouped_output(list, model);
  add_output(list, model.hidden, list.split(shape.output_width()), shape.output_gate,
             {OffloadModule::attn_proj});
}

}  // namespace moesim
