// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/routed_layer.h"

#include "realhw/core/numbers.h"

namespace moesim {

RoutedLayer::RoutedLayer(const LayerRouting& routing)
    : number(routing.layer),
      placement(routing.assignment->placement()),
      source(routing.source),
      kept(routing.source.size()) {
  for (const auto& chosen : routing.chosen) {
    top_k = std::max(top_k, static_cast<int>(chosen.size()));
  }
  const std::size_t choices = source.size() * static_cast<std::size_t>(top_k);
  expert.assign(choices, ExpertId(-1));
  slot.assign(choices, SlotId(-1));
  weight.resize(choices);
  AssignmentWalk walk(*routing.assignment);
  for (TokenId token(0); token.value < tokens(); ++token.value) {
    const auto& chosen = routing.chosen[token.index()];
    double sum = 0;
    for (int k = 0; k < static_cast<int>(chosen.size()); ++k) {
      const ExpertId of_choice = chosen[static_cast<std::size_t>(k)];
      if (of_choice.value < 0) continue;
      const std::size_t i = choice(token, k).index();
      expert[i] = of_choice;
      slot[i] = walk.next(source[token.index()], of_choice);
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

}  // namespace moesim
