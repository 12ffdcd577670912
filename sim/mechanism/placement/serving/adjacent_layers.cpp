// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/adjacent_layers.h"

#include <utility>

namespace moesim {

AdjacentLayers::AdjacentLayers(int layers, int experts)
    : experts_(experts), profiles_(static_cast<std::size_t>(layers), PathProfile(experts)) {}

void AdjacentLayers::observe(const LayerRoutingNow& now) {
  Chosen choices = chosen(now);
  if (now.layer > 0 && layer_ == now.layer - 1 && before_.size() == choices.size()) {
    for (std::size_t t = 0; t < choices.size(); ++t) {
      for (const ExpertId from : before_[t]) {
        profiles_[static_cast<std::size_t>(now.layer)].add({from}, choices[t]);
      }
    }
  }
  layer_ = now.layer;
  before_ = std::move(choices);
}

AdjacentLayers::Chosen AdjacentLayers::chosen(const LayerRoutingNow& now) const {
  Chosen choices;
  for (const auto& runs : now.batch.ranks) {
    for (const TokenRun& run : runs) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        auto& of_token = choices.emplace_back();
        for (int k = 0; k < now.ids.top_k(); ++k) {
          const int expert = now.ids.at(t, k);
          if (expert < experts_) of_token.emplace_back(expert);
        }
      }
    }
  }
  return choices;
}

}  // namespace moesim
