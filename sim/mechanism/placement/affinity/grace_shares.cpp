// SPDX-License-Identifier: Apache-2.0
// The sequence in which a rank's choices of one expert go to the copies of that expert.
#include <algorithm>

#include "sim/mechanism/placement/affinity/grace.h"

namespace moesim {
namespace {

/// Deals `period` choices out one by one: slot s earns weights[s] of every choice, and the slot
/// that is furthest behind what it has earned gets the next one (ties: the lowest). So any few
/// choices in a row are spread about by weight. Equal neighbours become one share.
Shares deal(std::span<const SlotId> slots, std::span<const double> weights, int period) {
  std::vector<double> behind(slots.size());
  Shares shares;
  for (int i = 0; i < period; ++i) {
    for (std::size_t s = 0; s < slots.size(); ++s) behind[s] += weights[s];
    const auto next =
        static_cast<std::size_t>(std::max_element(behind.begin(), behind.end()) - behind.begin());
    behind[next] -= 1;
    if (shares.empty() || shares.back().slot != slots[next]) shares.push_back({slots[next], 0});
    ++shares.back().count;
  }
  return shares;
}

}  // namespace

std::vector<std::vector<Shares>> grace_shares(const Placement& placement,
                                              std::span<const double> predicted, int gpus_per_node,
                                              GraceChoice choice, int period) {
  std::vector<std::vector<Shares>> shares(placement.gpus());
  for (int rank = 0; rank < placement.gpus(); ++rank) {
    for (int e = 0; e < placement.experts(); ++e) {
      const auto& slots = placement.slots_of(ExpertId(e));
      std::vector<GpuId> holders;
      for (const SlotId slot : slots) holders.push_back(placement.gpu_of(slot));
      const auto weights = grace_weights(GpuId(rank), holders, predicted, gpus_per_node, choice);
      // With a single copy in use every choice goes there: one share of one choice says that.
      const bool single = std::count(weights.begin(), weights.end(), 0.0) + 1 ==
                          static_cast<std::ptrdiff_t>(weights.size());
      shares[rank].push_back(deal(slots, weights, single ? 1 : period));
    }
  }
  return shares;
}

}  // namespace moesim
