// SPDX-License-Identifier: Apache-2.0
// The steps of attention to chosen and to compressed keys, in training and in a serving pass.
#include <algorithm>
#include <cmath>

#include "sim/model/block_steps.h"

namespace moesim {
namespace {

constexpr auto key_projections = OpKind::attention_projections;
constexpr auto key_scores = OpKind::attention_scores;
constexpr int index_score_bytes = 4;  // of an index score and of a chosen key's number

/// Scores of the indexer, summed over its heads by their kernel (fp8_mqa_logits of
/// deepseek-ai/DeepGEMM), and the choice of keys, which reads them.
void add_choice(StepList& list, const KeyIndexer& indexer, const AttendedTokens& of,
                DataType type) {
  AttentionHeads heads{indexer.heads, 1, indexer.dim, 0, type};
  const FusedAttention forward{of.queries, of.attended, heads, of.keys};
  heads.pass = Pass::backward;
  const FusedAttention backward{of.queries, of.attended, heads, of.keys};
  list.step({key_scores, forward, backward, MemoryBound{}, {RecomputeModule::core_attn}});
  const std::int64_t scores = of.queries * of.attended * index_score_bytes;
  const std::int64_t chosen = of.queries * indexer.top_k * index_score_bytes;
  const MemoryBound choice{Bytes(scores), Bytes(scores + chosen)};
  list.step({key_scores, choice, MemoryBound{}, MemoryBound{}, {RecomputeModule::core_attn}});
}

/// The product that brings keys and their weights down, and their sums over `ratio` tokens.
void add_compressor(StepList& list, std::int64_t hidden, int ratio, std::int64_t width) {
  const std::int64_t columns = KeyCompression::columns(ratio, width);
  const std::int64_t sums = std::max<std::int64_t>(1, width / ratio);
  list.linear(key_projections, list.own(), columns, hidden, {full_layer});
  list.memory(key_projections, list.own(), {columns, sums, columns + sums, columns}, {full_layer});
  list.keep(list.own(), columns + sums, list.element(), {full_layer});
}

/// Queries and the one key and value vector, their norms and rotary embedding.
void add_down_and_up(StepList& list, const MoeModel& model) {
  const AttentionShape& shape = *model.attention->shape;
  const std::int64_t heads = list.split(shape.heads), query = heads * shape.head_dim;
  list.linear(key_projections, list.own(), shape.q_rank, model.hidden, {full_layer});
  list.norm(key_projections, list.own(), shape.q_rank, {full_layer});
  list.linear(key_projections, list.all(), query, shape.q_rank, {full_layer});
  list.linear(key_projections, list.own(), shape.head_dim, model.hidden, {full_layer});
  list.norm(key_projections, list.own(), shape.head_dim, {full_layer});
  const std::int64_t rotated = (heads + 1) * shape.rope_dim;
  list.memory(key_projections, list.all(), {query + rotated, query + rotated, 2 * query, query},
              {full_layer});  // with a norm of each query
}

/// Heads of all queries against one vector that is key and value.
AttentionHeads shared_key_heads(StepList& list, const AttentionShape& shape, DataType type) {
  AttentionHeads heads{static_cast<int>(list.split(shape.heads)), 1, shape.head_dim, shape.head_dim,
                       type};
  heads.latent = true;
  return heads;
}

AttendedTokens both_ranges(AttendedTokens a, const AttendedTokens& b) {
  a.attended += b.attended;
  a.keys += b.keys;
  return a;
}

}  // namespace

void add_indexer(StepList& list, const MoeModel& model, int layer, double attended) {
  const AttentionShape& shape = *model.attention->shape;
  if (!shape.has_indexer(layer)) return;
  const KeyIndexer& indexer = *shape.indexer;
  list.linear(key_projections, list.own(), indexer.width(), shape.q_rank, {full_layer});
  list.linear(key_projections, list.own(), indexer.heads, model.hidden, {full_layer});
  if (shape.compresses()) {
    add_compressor(list, model.hidden, shape.ratio_of(layer), indexer.dim);
  } else {
    list.linear(key_projections, list.own(), indexer.dim, model.hidden, {full_layer});
  }
  list.keep(list.own(), indexer.width() + indexer.dim + indexer.heads, list.element(),
            {full_layer});
  const std::int64_t keys = std::llround(shape.indexed_keys(layer, attended));
  add_choice(list, indexer, {.queries = list.own(), .attended = keys}, model.activations);
}

void add_compressed(StepList& list, const MoeModel& model, int layer) {
  const AttentionShape& shape = *model.attention->shape;
  const std::int64_t query = list.split(shape.heads) * shape.head_dim;
  add_down_and_up(list, model);
  list.keep(list.own(), shape.q_rank + 2 * shape.head_dim, list.element(), {full_layer});
  list.keep_input(list.own(), shape.q_rank, {full_layer});
  list.keep(list.all(), 2 * query, list.element(), {full_layer});
  const int ratio = shape.ratio_of(layer);
  if (ratio > 0) add_compressor(list, model.hidden, ratio, shape.head_dim);
}

void add_grouped_output(StepList& list, const MoeModel& model) {
  const AttentionShape& shape = *model.attention->shape;
  const KeyCompression& compression = shape.compression;
  const std::int64_t groups = list.split(compression.output_groups);
  const std::int64_t width = list.split(shape.output_width());
  const std::int64_t joined_width = groups * compression.output_rank;
  const std::vector<std::int64_t> rows(static_cast<std::size_t>(groups), list.all());
  list.memory(OpKind::attention_output, list.all(), {width, width, width, width},
              {full_layer});  // rotates the position's part back
  list.linear(OpKind::attention_output, rows, compression.output_rank, width / groups,
              {full_layer});
  list.linear(OpKind::attention_output, list.all(), model.hidden, joined_width, {full_layer});
  list.keep_both(list.all(), width, {full_layer});
  list.keep_input(list.all(), joined_width, {full_layer});
}

void add_served_indexer(StepList& list, const MoeModel& model, int layer,
                        const ServedTokens& served) {
  const AttentionShape& shape = *model.attention->shape;
  if (!shape.has_indexer(layer)) return;
  const KeyIndexer& indexer = *shape.indexer;
  list.linear(key_projections, list.all(), indexer.width(), shape.q_rank, {});
  list.linear(key_projections, list.all(), indexer.heads, model.hidden, {});
  if (shape.compresses()) {
    add_compressor(list, model.hidden, shape.ratio_of(layer), indexer.dim);
  } else {
    list.linear(key_projections, list.all(), indexer.dim, model.hidden, {});
  }
  for (const bool decode : {false, true}) {
    const AttendedTokens of = attended_tokens(served, decode, {0, shape.ratio_of(layer)});
    if (of.queries > 0) add_choice(list, indexer, of, DataType::fp8);
  }
}

void add_served_compressed(StepList& list, const MoeModel& model, int layer,
                           const ServedTokens& served) {
  const AttentionShape& shape = *model.attention->shape;
  const int ratio = shape.ratio_of(layer);
  add_down_and_up(list, model);
  const Bytes rows(list.all() * shape.head_dim * list.element());
  list.step({key_projections,
             MemoryBound{rows, bytes_of(list.all() * shape.head_dim, served.cache)},
             MemoryBound{},
             MemoryBound{},
             {}});
  if (ratio > 0) add_compressor(list, model.hidden, ratio, shape.head_dim);
  add_served_indexer(list, model, layer, served);
  const int most = shape.has_indexer(layer) ? shape.indexer->top_k : 0;
  for (const bool decode : {false, true}) {
    AttendedTokens of = attended_tokens(served, decode, {shape.window, 1});
    if (ratio > 0) of = both_ranges(of, attended_tokens(served, decode, {most, ratio}));
    add_served_scores(list, of, shared_key_heads(list, shape, served.cache));
  }
}

}  // namespace moesim
