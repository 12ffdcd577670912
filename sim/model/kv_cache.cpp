// SPDX-License-Identifier: Apache-2.0
#include "sim/model/kv_cache.h"

#include <algorithm>
#include <map>

#include "sim/base/rounding.h"
#include "sim/model/moe_model.h"
#include "sim/model/parameters.h"

namespace moesim {
namespace {

constexpr int element_of_state = 4;  // fp32

/// Values of a token in a layer that keeps keys, on one GPU.
std::int64_t token_width(const AttentionShape& shape, int tp) {
  if (shape.kind == AttentionKind::mla) return std::int64_t{shape.kv_rank} + shape.rope_dim;
  if (shape.compresses()) return shape.head_dim;  // key and value in one
  return 2 * shared_by(shape.kv_heads, tp) * shape.head_dim;
}

Bytes state_of(const LinearAttention& linear, int tp, DataType activations) {
  const std::int64_t state = shared_by(linear.values(), tp) * linear.key_dim * element_of_state;
  return Bytes(state) +
         bytes_of(shared_by(linear.convolved(), tp) * (linear.conv - 1), activations);
}

Bytes state_of(const MambaShape& mamba, int tp, DataType activations) {
  const std::int64_t state = shared_by(mamba.inner(), tp) * mamba.state * element_of_state;
  return Bytes(state) + bytes_of(shared_by(mamba.convolved(), tp) * (mamba.conv - 1), activations);
}

/// Keys of the indexer are kept in FP8 (inference/model.py of DeepSeek-V3.2-Exp).
Bytes index_of(const AttentionShape& shape, int layer, std::int64_t keys) {
  return shape.has_indexer(layer) ? bytes_of(keys * shape.indexer->dim, DataType::fp8) : Bytes(0);
}

/// Tokens that grow without end: those of layers that attend to all.
bool grows(const MoeModel& model, int layer) {
  if (blocks_of_layer(model, layer).mixer != BlockKind::attention) return false;
  const AttentionShape& shape = *model.attention->shape;
  const int kind = kind_of_layer(model, layer);
  if (shape.compresses()) return shape.ratio_of(kind) > 0;
  return shape.is_full(kind);
}

Bytes of_layer(const MoeModel& model, int layer, std::int64_t tokens, const CacheShard& shard) {
  const auto mixer = blocks_of_layer(model, layer).mixer;
  if (!mixer) return Bytes(0);
  if (*mixer == BlockKind::mamba) return state_of(*model.mamba, shard.tp, model.activations);
  const AttentionShape& shape = *model.attention->shape;
  const int kind = kind_of_layer(model, layer);
  if (shape.is_linear(kind)) return state_of(*shape.linear, shard.tp, model.activations);
  const std::int64_t ratio = shape.ratio_of(kind);
  if (shape.compresses()) {
    const std::int64_t compressed = ratio == 0 ? 0 : shared_by(tokens, ratio);
    const std::int64_t keys = std::min<std::int64_t>(tokens, shape.window) + compressed;
    return bytes_of(shared_by(keys, shard.cp) * token_width(shape, shard.tp), shard.type) +
           index_of(shape, kind, shared_by(compressed, shard.cp));
  }
  const std::int64_t held =
      shape.is_full(kind) ? tokens : std::min<std::int64_t>(tokens, shape.window);
  return bytes_of(shared_by(held, shard.cp) * token_width(shape, shard.tp), shard.type) +
         index_of(shape, kind, shared_by(held, shard.cp));
}

}  // namespace

Bytes cache_of_sequence(const MoeModel& model, std::int64_t tokens, const CacheShard& shard,
                        int first, int last) {
  require_whole(model);
  Bytes sum;
  for (int layer = first; layer < last; ++layer) sum += of_layer(model, layer, tokens, shard);
  return sum;
}

Bytes cache_of_sequence(const MoeModel& model, std::int64_t tokens, const CacheShard& shard) {
  return cache_of_sequence(model, tokens, shard, 0, model.layers + shard.mtp);
}

SequenceCache sequence_cache(const MoeModel& model, const CacheShard& shard) {
  require_whole(model);
  SequenceCache cache;
  std::map<std::int64_t, Bytes> windows;
  for (int layer = 0; layer < model.layers + shard.mtp; ++layer) {
    const auto mixer = blocks_of_layer(model, layer).mixer;
    if (!mixer) continue;
    const int kind = kind_of_layer(model, layer);
    if (*mixer == BlockKind::mamba || model.attention->shape->is_linear(kind)) {
      cache.fixed += of_layer(model, layer, 1, shard);
      continue;
    }
    const AttentionShape& shape = *model.attention->shape;
    const auto width = token_width(shape, shard.tp);
    if (!grows(model, layer) || shape.compresses()) {
      windows[shape.window] += bytes_of(shared_by(width, shard.cp), shard.type);
    }
    if (grows(model, layer)) {
      const std::int64_t share = std::int64_t{shard.cp} * shape.ratio_of(kind);
      cache.per_token += bytes_of(shared_by(width, share), shard.type);
      if (shape.has_indexer(kind)) {
        cache.per_token += bytes_of(shared_by(shape.indexer->dim, share), DataType::fp8);
      }
    }
  }
  for (const auto& [tokens, per_token] : windows) cache.windows.push_back({tokens, per_token});
  return cache;
}

Bytes cache_per_token(const MoeModel& model, const CacheShard& shard) {
  return sequence_cache(model, shard).per_token;
}

}  // namespace moesim
