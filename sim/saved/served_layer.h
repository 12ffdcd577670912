// SPDX-License-Identifier: Apache-2.0
// One layer's routing with the slot that serves every choice: what execution needs besides the
// plan.
#pragma once

#include <vector>

#include "sim/plan/delivery.h"

namespace moesim {

/// Choices are [token][k] flat; tokens in the order of their source ranks.
struct ServedLayer {
  int number = 0;  // model layer number
  int top_k = 0;
  Placement placement;
  std::vector<GpuId> source;     // [token]
  std::vector<ExpertId> expert;  // [choice] below 0: dropped
  std::vector<SlotId> slot;      // [choice] below 0: dropped
  int microbatch = 0;            // of the iteration

  int tokens() const { return static_cast<int>(source.size()); }
};

ServedLayer served(const LayerRouting& routing);

}  // namespace moesim
