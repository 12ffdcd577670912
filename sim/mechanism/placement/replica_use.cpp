// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/replica_use.h"

#include <algorithm>
#include <utility>

namespace moesim {
namespace {

template <class Condition>
std::vector<SlotId> those_on(const Placement& slots, ExpertId expert, const Condition& condition) {
  std::vector<SlotId> some;
  std::ranges::copy_if(slots.slots_of(expert), std::back_inserter(some),
                       [&](SlotId slot) { return condition(slots.gpu_of(slot)); });
  return some;
}

std::vector<SlotId> nearest(const Placement& slots, ExpertId expert, GpuId rank,
                            const RankLevel& hosts) {
  auto own = those_on(slots, expert, [&](GpuId gpu) { return gpu == rank; });
  if (!own.empty()) return own;
  auto near = those_on(slots, expert,
                       [&](GpuId gpu) { return hosts.group_of(gpu) == hosts.group_of(rank); });
  return near.empty() ? slots.slots_of(expert) : near;
}

}  // namespace

Assignment assign_replicas(const Placement& slots, const RankSpace& ranks, GpuId first,
                           ReplicaUse use) {
  Ragged<Share> shares;
  shares.reserve(static_cast<std::size_t>(slots.gpus()) * static_cast<std::size_t>(slots.experts()),
                 static_cast<std::size_t>(slots.gpus()) * static_cast<std::size_t>(slots.slots()));
  std::vector<SlotId> near;
  Shares mine;
  for (int r = 0; r < slots.gpus(); ++r) {
    for (int e = 0; e < slots.experts(); ++e) {
      if (use == ReplicaUse::node_first)
        near = nearest(slots, ExpertId(e), GpuId(r), ranks.hosts());
      const auto& some = use == ReplicaUse::node_first ? near : slots.slots_of(ExpertId(e));
      const auto start = static_cast<std::size_t>(first.value + r) % some.size();
      mine.clear();
      for (std::size_t i = start; i < some.size(); ++i) mine.push_back({some[i], 1});
      for (std::size_t i = 0; i < start; ++i) mine.push_back({some[i], 1});
      shares.add_row(mine);
    }
  }
  return Assignment(slots, std::move(shares));
}

}  // namespace moesim
