// SPDX-License-Identifier: Apache-2.0
// One layer's routing as execution needs it: the slot and the gate weight of every choice.
#pragma once

#include <vector>

#include "sim/saved/served_layer.h"

namespace moesim {

/// A choice of a token, [token][k] flat.
using ChoiceId = Id<struct FlatChoiceTag>;

struct RoutedLayer : ServedLayer {
  explicit RoutedLayer(ServedLayer layer);
  explicit RoutedLayer(const LayerRouting& routing) : RoutedLayer(served(routing)) {}

  ChoiceId choice(TokenId token, int k) const {
    return ChoiceId(std::int64_t{token.value} * top_k + k);
  }
  TokenId token_of(ChoiceId choice) const { return TokenId(choice.value / top_k); }
  GpuId gpu_of(ChoiceId choice) const { return placement.gpu_of(slot[choice.index()]); }
  bool dropped(ChoiceId choice) const { return slot[choice.index()].value < 0; }

  std::vector<Choices> kept;  // [token] choices that were not dropped
  std::vector<float> weight;  // [choice] gate weights; those kept of a token sum to 1
};

}  // namespace moesim
