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
  const std::int64_t up = std::int64_t{1} * heads * (nope_dim + value_dim);
  return query + hidden * (kv_rank + rope_dim) + kv_rank * up + output;
}

double AttentionShape::keys_of(int layer, double attended) const {
  const double sequence = 2 * attended - 1;
  if (window == 0 || is_full(layer) || window >= sequence) return attended;
  return window - window * (window - 1.0) / (2 * sequence);
}

}  // namespace moesim
