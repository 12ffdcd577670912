// SPDX-License-Identifier: Apache-2.0
// What sequences take in the cache of a serving engine. What a sequence takes in the cache of one
// GPU as it grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/moe_model.h"

namespace moesim {

/// Over all layers of a model:
/// - per_token: of layers that attend to all tokens;
/// - fixed: states of linear attention and Mamba, and what their convolutions see;
/// - windows: of layers that hold at most so many tokens.
struct SequenceCache {
  struct Window {
    std::int64_t tokens = 0;
    Bytes per_token{};
  };
  Bytes per_token{}, fixed{};
  std::vector<Window> windows;

  /// What does not grow with each token.
  Bytes bounded(std::int64_t tokens) const {
    Bytes sum = fixed;
    for (const Window& window : windows) sum += window.per_token * std::min(tokens, window.tokens);
    return sum;
  }
  Bytes of(std::int64_t tokens) const { return bounded(tokens) + per_token * tokens; }
};

/// How a GPU holds the cache.
struct CacheShard {
  DataType type = DataType::bf16;  // of keys and values
  int tp = 1;                      // GPUs that share the heads; MLA's latent vectors are on each
  int cp = 1;                      // GPUs that share the tokens of a sequence
  int mtp = 0;                     // layers of multi-token prediction that have keys, too
};

/// Bytes of one sequence of `tokens` tokens on one GPU, over the layers `first` to before `last`.
/// - MLA: kv_rank + rope_dim values per token and layer (arXiv 2405.04434, section 2.1.3).
/// - Grouped queries: a key and a value per head; heads are copied if tp exceeds them.
/// - A layer with a window holds its tokens only. Linear attention and Mamba hold one state in fp32
///   and what their convolution sees, whatever the length.
/// Throws Error if the model describes no whole model.
Bytes cache_of_sequence(const MoeModel& model, std::int64_t tokens, const CacheShard& shard,
                        int first, int last);
/// The same over all layers of the model, and those of multi-token prediction that have keys.
Bytes cache_of_sequence(const MoeModel& model, std::int64_t tokens, const CacheShard& shard);

/// The same for sequences of any length, but that parts of a compressed or shared token count as
/// parts.
SequenceCache sequence_cache(const MoeModel& model, const CacheShard& shard);

/// Bytes that one more token takes in long sequences, over all these layers: without windows,
/// states and convolutions, which do not grow.
Bytes cache_per_token(const MoeModel& model, const CacheShard& shard);

}  // namespace moesim
