// SPDX-License-Identifier: Apache-2.0
// SwiftBalancer (vllm-project/vllm-ascend, policy_swift_balancer.py at 182b75ea): redundant slots
// are filled anew, then the most loaded GPU exchanges experts, one for one, so that few move.
// Unlike upstream, arithmetic is double (single there) and equal exchanges go to the lower experts
// (the order of a hash table there).
#pragma once

#include <span>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim::swift_balancer {

/// One layer: its new slots, and the largest load of a GPU. Experts that stay on a GPU keep their
/// slot. `largest` is what the balancer expects, also if it keeps the slots because of that.
struct Rebalanced {
  SlotTable slots;
  double before = 0;
  double largest = 0;
};

/// From the loads of the experts and the slots that hold them. Throws Error unless GPUs have
/// equally many slots, a GPU holds different experts, and every expert is held.
Rebalanced rebalance(std::span<const double> loads, const SlotTable& before);

/// Whether the layers together gain enough for anything to move: 5 % of the largest loads.
bool worth_moving(std::span<const Rebalanced> layers);

}  // namespace moesim::swift_balancer
