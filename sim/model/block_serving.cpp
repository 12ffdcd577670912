// SPDX-License-Identifier: Apache-2.0
// The steps of an attention or a Mamba block in a serving pass.
//
// Sequences that prefill and sequences that decode share all products of tokens by weights. Their
// attention is one kernel each. MLA decodes in its absorbed form: queries are multiplied into the
// space of the latent keys, so that a key is one vector for all heads; it prefills as in training,
// on keys and values of every head, which a prefix in the cache needs again, too.
#include <vector>

#include "sim/model/block_steps.h"

namespace moesim {
namespace {

constexpr int state_bytes = 4;  // of a recurrent state, fp32

void add_memory(StepList& list, OpKind kind, std::int64_t read, std::int64_t written) {
  list.step({kind, MemoryBound{Bytes(read), Bytes(written)}, MemoryBound{}, MemoryBound{}, {}});
}

/// Rotary embedding of queries and keys, and the keys' and values' way into the cache.
void add_rotary_and_cache(StepList& list, std::int64_t rotated, std::int64_t cached,
                          DataType cache) {
  list.memory(projections, list.all(), {rotated, rotated, 0, 0}, {});
  add_memory(list, projections, list.all() * cached * list.element(),
             bytes_of(list.all() * cached, cache).value);
}

void add_gqa(StepList& list, const MoeModel& model, int kind, const ServedTokens& served) {
  const AttentionShape& shape = *model.attention->shape;
  const std::int64_t query = list.split(shape.query_width());
  const int heads = static_cast<int>(list.split(shape.heads));
  const int kv_heads = static_cast<int>(list.split(shape.kv_heads));  // 1 at least: repeated
  const std::int64_t key = std::int64_t{1} * kv_heads * shape.head_dim;
  const std::int64_t gate = shape.output_gate ? query : 0;
  list.linear(projections, list.all(), query + 2 * key + gate, model.hidden, {});
  if (shape.qk_norm) list.norm(projections, list.all(), query + key, {});
  add_rotary_and_cache(list, query + key, 2 * key, served.cache);
  const int window = shape.is_full(kind) ? 0 : shape.window;
  for (const bool decode : {false, true}) {
    const int all = decode ? heads * served.cp : heads;
    add_served_scores(list, attended_tokens(served, decode, {window, 1}),
                      {all, kv_heads, shape.head_dim, shape.head_dim, served.cache});
  }
}

/// A product of each head by its own weights.
void add_by_head(StepList& list, int heads, std::int64_t rows, std::int64_t n, std::int64_t k,
                 DataType type) {
  const std::vector<std::int64_t> m(static_cast<std::size_t>(heads), rows);
  list.step({projections, GroupedGemm{m, n, k, type}, MemoryBound{}, MemoryBound{}, {}});
}

void add_mla_prefill(StepList& list, const AttentionShape& shape, const AttendedTokens& of,
                     DataType cache) {
  if (of.queries == 0) return;
  const int heads = static_cast<int>(list.split(shape.heads));
  const std::int64_t up = std::int64_t{1} * heads * (shape.nope_dim + shape.value_dim);
  list.linear(projections, of.keys, up, shape.kv_rank, {});
  // Keys of each head are joined from their parts.
  const std::int64_t key = std::int64_t{1} * heads * (shape.nope_dim + shape.rope_dim);
  list.memory(projections, of.keys, {key, key, 0, 0}, {});
  const int qk = shape.nope_dim + shape.rope_dim;
  add_served_scores(list, of, {heads, heads, qk, shape.value_dim, cache});
}

/// `sharing`: GPUs that share the keys, each with the heads of all of them.
void add_latent_scores(StepList& list, const MoeModel& model, const AttendedTokens& of,
                       DataType cache, int sharing = 1) {
  if (of.queries == 0) return;
  const AttentionShape& shape = *model.attention->shape;
  const int heads = static_cast<int>(list.split(shape.heads));
  add_by_head(list, heads, of.queries, shape.kv_rank, shape.nope_dim, model.activations);
  AttentionHeads latent{heads * sharing, 1, shape.kv_rank + shape.rope_dim, shape.kv_rank, cache};
  latent.latent = true;
  add_served_scores(list, of, latent);
  add_by_head(list, heads, of.queries, shape.value_dim, shape.kv_rank, model.activations);
}

void add_mla(StepList& list, const MoeModel& model, int layer, const ServedTokens& served) {
  const AttentionShape& shape = *model.attention->shape;
  const std::int64_t heads = list.split(shape.heads);
  const std::int64_t query = list.split(shape.query_width());
  const std::int64_t latent = shape.kv_rank + shape.rope_dim;
  // One product brings both down; every tensor-parallel GPU computes it whole.
  if (shape.q_rank > 0) {
    list.linear(projections, list.all(), shape.q_rank + latent, model.hidden, {});
    list.norm(projections, list.all(), shape.q_rank + shape.kv_rank, {});
    list.linear(projections, list.all(), query, shape.q_rank, {});
  } else {
    list.linear(projections, list.all(), query + latent, model.hidden, {});
    list.norm(projections, list.all(), shape.kv_rank, {});
  }
  add_rotary_and_cache(list, (heads + 1) * shape.rope_dim, latent, served.cache);
  add_served_indexer(list, model, layer, served);
  const int most = shape.indexer ? shape.indexer->top_k : 0;
  const AttendedTokens prefill = attended_tokens(served, false, {most, 1});
  // Chosen keys differ from query to query, so that heads cannot have keys of their own.
  if (most > 0 && attended_tokens(served, false).attended > prefill.attended) {
    add_latent_scores(list, model, prefill, served.cache);
  } else {
    add_mla_prefill(list, shape, prefill, served.cache);
  }
  add_latent_scores(list, model, attended_tokens(served, true, {most, 1}), served.cache, served.cp);
}

/// The kernels of the rule in chunks, one by one, each a launch of the host: decays, norms of
/// queries and keys, sums of decays, products of keys (with all other products), their inverse
/// triangle, w and u, states, outputs. What they pass each other is as in training
/// (chunk_gated_delta_rule of fla-org/flash-linear-attention 0315a70e). They need contiguous rows,
/// which a convolution does not leave: queries and keys are copied, then values (its input_guard;
/// sgl-project/sglang 06beed92 has it, too), and a fourth launch finds the prompts with a prefix.
void add_delta_chunks(StepList& list, const MoeModel& model, std::int64_t tokens) {
  const LinearAttention& linear = *model.attention->shape->linear;
  constexpr std::int64_t chunk = 64;  // tokens
  const std::int64_t heads = list.split(linear.value_heads), key = list.split(linear.keys());
  const std::int64_t k = heads * linear.key_dim, v = heads * linear.value_dim, a = heads * chunk;
  const std::int64_t states = k * linear.value_dim / chunk;
  const auto kernel = [&](std::int64_t read, std::int64_t written) {
    list.memory(OpKind::attention_scores, tokens, {read, written, 0, 0}, {});
  };
  for (const std::int64_t copied : {2 * key, v}) {
    list.memory(projections, tokens, {copied, copied, 0, 0}, {});
  }
  kernel(2 * heads, 2 * heads);
  kernel(key, key);
  kernel(key, key);
  kernel(heads, heads);
  list.step({OpKind::attention_scores,
             GroupedGemm{{tokens}, 4 * linear.value_dim, v, model.activations},
             MemoryBound{},
             MemoryBound{},
             {}});
  kernel(k + 2 * a, 3 * a);
  kernel(k + v + a, k + v);
  kernel(2 * k + v, v + states);
  kernel(2 * k + v + states, v);
}

/// The delta rule: a decode reads and writes the state of each sequence; a prefill works in chunks.
/// Decays and rates have a product of their own, and a kernel puts heads in order (vLLM's and
/// SGLang's models/qwen3_next.py).
void add_linear_attention(StepList& list, const MoeModel& model, const ServedTokens& served) {
  const LinearAttention& linear = *model.attention->shape->linear;
  const std::int64_t convolved = list.split(linear.convolved());
  const std::int64_t values = list.split(linear.values());
  const std::int64_t rates = 2 * list.split(linear.value_heads);
  const std::int64_t projected = list.split(linear.projected());
  list.linear(projections, list.all(), projected - rates, model.hidden, {});
  list.linear(projections, list.all(), rates, model.hidden, {});
  list.memory(projections, list.all(), {projected, projected, 0, 0}, {});
  list.memory(projections, list.all(), {convolved, convolved, 0, 0}, {});
  const AttendedTokens prefill = attended_tokens(served, false);
  const AttendedTokens decode = attended_tokens(served, true);
  const std::int64_t state = values * linear.key_dim * state_bytes;
  add_memory(list, OpKind::attention_scores, decode.sequences * state, decode.sequences * state);
  if (prefill.queries > 0) add_delta_chunks(list, model, prefill.queries);
}

void add_output(StepList& list, const AttentionShape& shape, std::int64_t hidden,
                std::int64_t width, bool gated) {
  if (gated || shape.output_gate) {
    list.memory(OpKind::attention_output, list.all(), {2 * width, width, 0, 0}, {});
  }
  list.linear(OpKind::attention_output, list.all(), hidden, width, {});
}

}  // namespace

void add_served_scores(StepList& list, const AttendedTokens& of, const AttentionHeads& heads) {
  list.step({OpKind::attention_scores,
             FusedAttention{of.queries, of.attended, heads, of.keys},
             MemoryBound{},
             MemoryBound{},
             {}});
}

SharedKeys shared_keys(const MoeModel& model, const BlockShard& shard) {
  const AttentionShape& shape = *model.attention->shape;
  const ServedTokens& served = *shard.served;
  const bool mla = shape.kind == AttentionKind::mla;
  const std::int64_t heads = (shape.heads + shard.tp - 1) / shard.tp;
  const std::int64_t key = mla ? shape.kv_rank + shape.rope_dim : shape.head_dim;
  const std::int64_t result = mla ? shape.kv_rank : shape.head_dim;
  const std::int64_t decoded = attended_tokens(served, true).queries * heads;
  Bytes queries = bytes_of(decoded * key, model.activations);
  for (const SequenceStep& each : served.sequences) {
    if (decodes(each)) continue;
    const std::int64_t held = (each.context + served.cp - 1) / served.cp;
    queries += bytes_of(held * each.count * (mla ? key : 2 * key), served.cache);
  }
  constexpr int sum_bytes = 4;
  return {queries,
          bytes_of(decoded * result, model.activations) + Bytes(decoded * served.cp * sum_bytes)};
}

void add_served_attention(StepList& list, const MoeModel& model, int layer,
                          const BlockShard& shard) {
  const AttentionShape& shape = *model.attention->shape;
  const ServedTokens& served = *shard.served;
  const int kind = kind_of_layer(model, layer);
  const bool linear = shape.is_linear(kind);
  if (list.has_streams()) list.residual(model.hidden, {});
  list.norm(OpKind::norm, list.all(), model.hidden, {});
  if (shape.compresses()) {
    add_served_compressed(list, model, kind, served);
    return add_grouped_output(list, model);
  }
  if (linear) {
    add_linear_attention(list, model, served);
  } else if (shape.kind == AttentionKind::mla) {
    add_mla(list, model, kind, served);
  } else {
    add_gqa(list, model, kind, served);
  }
  const std::int64_t width = linear ? shape.linear->values() : shape.output_width();
  add_output(list, shape, model.hidden, list.split(width), linear);
}

void add_served_mamba(StepList& list, const MoeModel& model, const ServedTokens& served) {
  const MambaShape& shape = *model.mamba;
  const std::int64_t convolved = list.split(shape.convolved()), inner = list.split(shape.inner());
  const std::int64_t state = inner * shape.state * state_bytes;
  const AttendedTokens prefill = attended_tokens(served, false);
  const AttendedTokens decode = attended_tokens(served, true);
  list.norm(OpKind::norm, list.all(), model.hidden, {});
  list.linear(OpKind::mamba_projection, list.all(), list.split(shape.projected()), model.hidden,
              {});
  list.memory(OpKind::mamba_conv, list.all(), {convolved, convolved, 0, 0}, {});
  add_memory(list, OpKind::mamba_scan, decode.sequences * state, decode.sequences * state);
  const std::int64_t product = MambaShape::chunk + std::int64_t{2} * shape.state;
  list.step({OpKind::mamba_scan,
             GroupedGemm{{prefill.queries}, product, inner, model.activations},
             MemoryBound{},
             MemoryBound{},
             {}});
  list.norm(OpKind::mamba_norm, list.all(), inner, {});
  list.linear(OpKind::mamba_projection, list.all(), model.hidden, inner, {});
}

}  // namespace moesim
