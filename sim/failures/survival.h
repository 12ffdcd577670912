// SPDX-License-Identifier: Apache-2.0
// Whether experts outlive the loss of nodes.
#pragma once

#include <span>

#include "sim/plan/placement.h"

namespace moesim {

struct Survival {
  double share = 0;   // of the sets of lost nodes that leave every expert of every layer
  bool exact = true;  // all sets were looked at, else 100,000 drawn ones
};

/// `layers`: the experts whose whole state each GPU holds, one table per layer. A node is
/// `gpus_per_node` consecutive GPUs; `together` of them are lost, each set as likely as any other.
/// Throws Error unless nodes divide the GPUs and there are that many.
Survival survival(std::span<const SlotTable> layers, int gpus_per_node, int together);

}  // namespace moesim
