// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/shared_choice.h"

namespace moesim {

RoutedTokens SharedChoice::add_to(const RoutedTokens& tokens) {
  const int top_k = tokens.ids.top_k();
  Batch batch{tokens.batch.step, {}};
  ids_.clear();
  ids_.reserve(static_cast<std::size_t>(tokens.batch.tokens() * (top_k + 1)));
  std::int64_t at = 0;
  for (const auto& runs : tokens.batch.ranks) {
    TokenRun all{at, 0};
    for (const TokenRun& run : runs) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        for (int k = 0; k < top_k; ++k) {
          ids_.push_back(static_cast<std::uint16_t>(tokens.ids.at(t, k)));
        }
        ids_.push_back(shared_);
      }
      all.count += run.count;
    }
    at += all.count;
    batch.ranks.push_back({all});
  }
  batch_ = std::move(batch);
  return {batch_, {ids_.data(), 2, top_k + 1, at}};
}

}  // namespace moesim
