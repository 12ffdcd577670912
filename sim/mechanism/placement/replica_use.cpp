// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/replica_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

template <class Condition>
std::vector<SlotId> those_on(const Placement& slots, ExpertId expert, const Condition& condition) {
  std::vector<SlotId> some;
  std::ranges::copy_if(slots.slots_of(expert), std::back_inserter(some),
                       [&](SlotId slot) { return condition(slots.gpu_of(slot)); });
  return some;
}

std::vector<SlotId> usable(const Placement& slots, ExpertId expert, GpuId rank,
                           const RankLevel& hosts, ReplicaUse use) {
  if (use == ReplicaUse::node_first) {
    auto own = those_on(slots, expert, [&](GpuId gpu) { return gpu == rank; });
    if (!own.empty()) return own;
    auto near = those_on(slots, expert,
                         [&](GpuId gpu) { return hosts.group_of(gpu) == hosts.group_of(rank); });
    if (!near.empty()) return near;
  }
  return slots.slots_of(expert);
}

}  // namespace

int gpus_per_host(const EpGroups& groups, const std::string& who) {
  if (groups.gpus_per_host() > 0) return groups.gpus_per_host();
  throw Unsuitable(
      fmt::format("'{}' needs hosts of equally many consecutive GPUs, which '{}' has not", who,
                  groups.cluster()));
}

Assignment assign_replicas(const Placement& slots, const RankSpace& ranks, GpuId first,
                           ReplicaUse use) {
  std::vector<std::vector<Shares>> shares(static_cast<std::size_t>(slots.gpus()));
  for (int r = 0; r < slots.gpus(); ++r) {
    for (int e = 0; e < slots.experts(); ++e) {
      auto some = usable(slots, ExpertId(e), GpuId(r), ranks.hosts(), use);
      const auto start = static_cast<std::size_t>(first.value + r) % some.size();
      std::rotate(some.begin(), some.begin() + static_cast<std::ptrdiff_t>(start), some.end());
      auto& mine = shares[static_cast<std::size_t>(r)].emplace_back();
      for (const SlotId slot : some) mine.push_back({slot, 1});
    }
  }
  return Assignment(slots, shares);
}

}  // namespace moesim
