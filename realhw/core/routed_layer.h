// SPDX-License-Identifier: Apache-2.0
// One layer's routing as execution needs it: the slot and the gate weight of every choice.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/plan.h"
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
  /// Whether an op belongs to the layer in its microbatch.
  bool is_of(const OpKey& key) const { return key.layer == number && key.microbatch == microbatch; }
  std::string name() const;  // "layer 3", of later microbatches "microbatch 2, layer 3"

  std::vector<Choices> kept;  // [token] choices that were not dropped
  std::vector<float> weight;  // [choice] gate weights; those kept of a token sum to 1
};

}  // namespace moesim
