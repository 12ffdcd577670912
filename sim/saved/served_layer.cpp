// SPDX-License-Identifier: Apache-2.0
#include "sim/saved/served_layer.h"

#include <algorithm>

namespace moesim {

ServedLayer served(const LayerRouting& routing) {
  ServedLayer layer{routing.layer, 0, routing.assignment->placement(), routing.source, {}, {}, 0};
  for (const auto& chosen : routing.chosen) {
    layer.top_k = std::max(layer.top_k, static_cast<int>(chosen.size()));
  }
  const auto top_k = static_cast<std::size_t>(layer.top_k);
  layer.expert.assign(layer.source.size() * top_k, ExpertId(-1));
  layer.slot.assign(layer.expert.size(), SlotId(-1));
  AssignmentWalk walk(*routing.assignment);
  for (std::size_t token = 0; token < layer.source.size(); ++token) {
    const auto& chosen = routing.chosen[token];
    for (std::size_t k = 0; k < chosen.size(); ++k) {
      if (chosen[k].value < 0) continue;
      layer.expert[token * top_k + k] = chosen[k];
      layer.slot[token * top_k + k] = walk.next(layer.source[token], chosen[k]);
    }
  }
  return layer;
}

}  // namespace moesim
