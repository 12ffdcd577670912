// SPDX-License-Identifier: Apache-2.0
// What a sequence takes in the cache of one GPU as it grows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/types.h"

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

}  // namespace moesim
