// SPDX-License-Identifier: Apache-2.0
// Tokens written by hand or drawn, as the id rows of a layer.
#pragma once

#include <utility>
#include <vector>

#include "sim/trace/memory_step.h"
#include "sim/trace/synth/random.h"

namespace moesim {

/// The choices of some tokens of one layer; keeps the array that `rows` looks into.
class ChosenTokens {
 public:
  ChosenTokens(int experts, const std::vector<std::vector<int>>& chosen)
      : top_k_(static_cast<int>(chosen.front().size())) {
    std::vector<int> ids;
    for (const auto& token : chosen) ids.insert(ids.end(), token.begin(), token.end());
    ids_ = IdArray(experts, ids);
  }
  IdRows rows() const { return IdRows(ids_.data(), ids_.width(), top_k_, ids_.count() / top_k_); }

 private:
  int top_k_;
  IdArray ids_;
};

/// `count` tokens, each with top_k different experts drawn uniformly.
inline std::vector<std::vector<int>> uniform_tokens(int experts, int top_k, int count,
                                                    std::uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<int>> tokens;
  for (int t = 0; t < count; ++t) {
    std::vector<int> order;
    for (int e = 0; e < experts; ++e) order.push_back(e);
    for (int k = 0; k < top_k; ++k) {
      const auto left = static_cast<std::uint32_t>(experts - k);
      std::swap(order[static_cast<std::size_t>(k)],
                order[static_cast<std::size_t>(k) + random.below(left)]);
    }
    order.resize(static_cast<std::size_t>(top_k));
    tokens.push_back(order);
  }
  return tokens;
}

/// `tokens` with each one repeated.
inline void repeat(std::vector<std::vector<int>>& tokens, std::vector<int> token, int times) {
  for (int i = 0; i < times; ++i) tokens.push_back(token);
}

}  // namespace moesim
