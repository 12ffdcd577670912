// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/baselines.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/ordering.h"

namespace moesim::fsep {
namespace {

/// Ranks of an EP group, which holds every expert once.
int group_size(int experts, const SlotGrid& grid) {
  grid.check(experts);
  const int size = experts / grid.slots_per_rank;
  if (experts % grid.slots_per_rank != 0 || grid.ranks % size != 0) {
    throw Error(fmt::format("{} ranks with {} slots cannot form groups that hold {} experts once",
                            grid.ranks, grid.slots_per_rank, experts),
                "the slots must divide the experts, and their quotient the ranks");
  }
  return size;
}

/// The same experts in every EP group.
SlotTable repeated(const SlotTable& group, int ranks) {
  SlotTable slots;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    slots.push_back(group[rank % group.size()]);
  }
  return slots;
}

}  // namespace

SlotTable initial_slots(int experts, const SlotGrid& grid) {
  grid.check(experts);
  SlotTable slots(grid.ranks);
  for (int slot = 0; slot < grid.slots(); ++slot) {
    slots[slot / grid.slots_per_rank].emplace_back(slot % experts);
  }
  return slots;
}

SlotTable fsdp_ep_slots(int experts, const SlotGrid& grid) {
  SlotTable group(group_size(experts, grid));
  for (int e = 0; e < experts; ++e) {
    group[static_cast<std::size_t>(e) % group.size()].emplace_back(e);
  }
  return repeated(group, grid.ranks);
}

SlotTable smart_slots(std::span<const std::int64_t> loads, const SlotGrid& grid) {
  const int experts = static_cast<int>(loads.size());
  SlotTable group(group_size(experts, grid));
  std::vector<std::int64_t> sums(group.size());
  // Heaviest first, each to the least loaded rank with a free slot.
  for (const ExpertId e : descending<ExpertId>(loads)) {
    std::size_t best = group.size();
    for (std::size_t r = 0; r < group.size(); ++r) {
      if (static_cast<int>(group[r].size()) == grid.slots_per_rank) continue;
      if (best == group.size() || sums[r] < sums[best]) best = r;
    }
    group[best].push_back(e);
    sums[best] += loads[e.index()];
  }
  for (auto& rank : group) std::sort(rank.begin(), rank.end());
  return repeated(group, grid.ranks);
}

}  // namespace moesim::fsep
