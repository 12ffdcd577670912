// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/routed_layer.h"

#include <fmt/format.h>

#include "realhw/core/numbers.h"

namespace moesim {

RoutedLayer::RoutedLayer(ServedLayer layer)
    : ServedLayer(std::move(layer)), kept(source.size()), weight(slot.size()) {
  for (TokenId token(0); token.value < tokens(); ++token.value) {
    double sum = 0;
    for (int k = 0; k < top_k; ++k) {
      if (dropped(choice(token, k))) continue;
      kept[token.index()] |= Choices{1} << k;
      sum += raw_gate_weight(number, token, k);
    }
    for (int k = 0; k < top_k; ++k) {
      const ChoiceId id = choice(token, k);
      if (dropped(id)) continue;
      weight[id.index()] = static_cast<float>(raw_gate_weight(number, token, k) / sum);
    }
  }
}

std::string RoutedLayer::name() const {
  if (microbatch == 0) return fmt::format("layer {}", number);
  return fmt::format("microbatch {}, layer {}", microbatch, number);
}

}  // namespace moesim
