// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/replica_use.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

/// The slots of `all` on GPUs first..first + count - 1.
std::vector<SlotId> among(const Placement& placement, const std::vector<SlotId>& all, int first,
                          int count) {
  std::vector<SlotId> slots;
  std::copy_if(all.begin(), all.end(), std::back_inserter(slots), [&](SlotId slot) {
    const int gpu = placement.gpu_of(slot).value;
    return gpu >= first && gpu < first + count;
  });
  return slots;
}

std::vector<SlotId> usable(const Placement& placement, ExpertId expert, int rank, int ep,
                           int gpus_per_node, ReplicaUse use) {
  const auto run = among(placement, placement.slots_of(expert), rank / ep * ep, ep);
  if (use == ReplicaUse::node_first) {
    const auto own = among(placement, run, rank, 1);
    if (!own.empty()) return own;
    const auto node = among(placement, run, rank / gpus_per_node * gpus_per_node, gpus_per_node);
    if (!node.empty()) return node;
  }
  return run.empty() ? placement.slots_of(expert) : run;
}

}  // namespace

int gpus_per_host(const Topology& topology, const std::string& who) {
  const int gpus = topology.gpu_count();
  const int size = gpus / topology.host_count();
  for (int g = 0; g < gpus; ++g) {
    if (gpus % topology.host_count() == 0 && topology.host_of(GpuId(g)) == g / size) continue;
    throw Unsuitable(
        fmt::format("'{}' needs hosts of equally many consecutive GPUs, which '{}' has not", who,
                    topology.name()));
  }
  return size;
}

Assignment assign_replicas(Placement placement, int ep, int gpus_per_node, ReplicaUse use) {
  std::vector<std::vector<Shares>> shares(static_cast<std::size_t>(placement.gpus()));
  for (int rank = 0; rank < placement.gpus(); ++rank) {
    for (int e = 0; e < placement.experts(); ++e) {
      auto slots = usable(placement, ExpertId(e), rank, ep, gpus_per_node, use);
      std::rotate(slots.begin(),
                  slots.begin() +
                      static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rank) % slots.size()),
                  slots.end());
      auto& mine = shares[static_cast<std::size_t>(rank)].emplace_back();
      for (const SlotId slot : slots) mine.push_back({slot, 1});
    }
  }
  return Assignment(std::move(placement), shares);
}

}  // namespace moesim
