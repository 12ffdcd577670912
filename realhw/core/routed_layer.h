// SPDX-License-Identifier: Apache-2.0
// One layer's routing as execution needs it: the slot and the gate weight of every choice.
#pragma once

#include <vector>

#include "sim/plan/delivery.h"

namespace moesim {

/// A choice of a token, [token][k] flat.
using ChoiceId = Id<struct FlatChoiceTag>;

struct RoutedLayer {
  explicit RoutedLayer(const LayerRouting& routing);

  int tokens() const { return static_cast<int>(source.size()); }
  ChoiceId choice(TokenId token, int k) const {
    return ChoiceId(std::int64_t{token.value} * top_k + k);
  }
  TokenId token_of(ChoiceId choice) const { return TokenId(choice.value / top_k); }
  GpuId gpu_of(ChoiceId choice) const { return placement.gpu_of(slot[choice.index()]); }
  bool dropped(ChoiceId choice) const { return slot[choice.index()].value < 0; }

  int number = 0;  // model layer number
  int top_k = 0;
  Placement placement;
  std::vector<GpuId> source;     // [token]
  std::vector<Choices> kept;     // [token] choices that were not dropped
  std::vector<ExpertId> expert;  // [choice]
  std::vector<SlotId> slot;      // [choice] below 0: dropped
  std::vector<float> weight;     // [choice] gate weights; those kept of a token sum to 1
};

}  // namespace moesim
