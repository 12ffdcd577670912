// SPDX-License-Identifier: Apache-2.0
#include "sim/model/attention_shape.h"

namespace moesim {

std::int64_t AttentionShape::query_width() const {
  return std::int64_t{1} * heads * (kind == AttentionKind::mla ? nope_dim + rope_dim : head_dim);
}
std::int64_t AttentionShape::key_width() const {
  return kind == AttentionKind::mla ? query_width() : std::int64_t{1} * kv_heads * head_dim;
}
std::int64_t AttentionShape::value_width() const {
  return kind == AttentionKind::mla ? output_width() : std::int64_t{1} * kv_heads * head_dim;
}
std::int64_t AttentionShape::output_width() const {
  return std::int64_t{1} * heads * (kind == AttentionKind::mla ? value_dim : head_dim);
}

std::int64_t AttentionShape::projections(std::int64_t hidden) const {
  const std::int64_t output = output_width() * hidden;
  if (kind == AttentionKind::gqa) {
    const std::int64_t queries = query_width() * (output_gate ? 2 : 1);
    return hidden * (queries + key_width() + value_width()) + output;
  }
  const std::int64_t query =
      q_rank == 0 ? hidden * query_width() : q_rank * (hidden + query_width());
  if (compresses()) {
    const std::int64_t groups = std::int64_t{compression.output_rank} * output_width();
    const std::int64_t joined =
        std::int64_t{1} * compression.output_rank * compression.output_groups * hidden;
    return query + hidden * head_dim + groups + joined;
  }
  const std::int64_t up = std::int64_t{1} * heads * (nope_dim + value_dim);
  return query + hidden * (kv_rank + rope_dim) + kv_rank * up + output;
}

std::int64_t AttentionShape::indexer_weights(int layer, std::int64_t hidden) const {
  if (!has_indexer(layer)) return 0;
  const std::int64_t keys =
      compresses() ? KeyCompression::columns(ratio_of(layer), indexer->dim) : indexer->dim;
  return q_rank * indexer->width() + hidden * (indexer->heads + keys);
}

std::int64_t AttentionShape::compressor_weights(int layer, std::int64_t hidden) const {
  if (!compresses() || ratio_of(layer) == 0) return 0;
  return hidden * KeyCompression::columns(ratio_of(layer), head_dim);
}

namespace {

/// The mean of min(i, most) for i = 1 ... 2 mean - 1; most 0: of all.
double at_most(double most, double mean) {
  const double last = 2 * mean - 1;
  return most == 0 || most >= last ? mean : most - most * (most - 1) / (2 * last);
}

}  // namespace

double AttentionShape::keys_of(int layer, double attended) const {
  const double chosen = has_indexer(layer) ? indexer->top_k : 0;
  if (!compresses()) return at_most(is_full(layer) ? chosen : window, attended);
  const int ratio = ratio_of(layer);
  return at_most(window, attended) + (ratio == 0 ? 0 : at_most(chosen, attended / ratio));
}

}  // namespace moesim
