// SPDX-License-Identifier: Apache-2.0
#include "sim/run/domains_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sim/base/figures.h"

namespace moesim {
namespace {

/// GPUs of the smallest host.
std::size_t room_of_host(const Topology& topology) {
  std::vector<std::size_t> gpus(static_cast<std::size_t>(topology.host_count()));
  for (const GpuId gpu : topology.all_gpus()) {
    ++gpus[static_cast<std::size_t>(topology.host_of(gpu))];
  }
  return gpus.empty() ? 0 : std::ranges::min(gpus);
}

}  // namespace

std::string domains_text(const Topology& topology, const GpuGroups& groups) {
  const std::size_t room = room_of_host(topology);
  std::int64_t spanning = 0;
  const std::vector<GpuId>* first = nullptr;
  for (const auto& group : groups) {
    if (group.size() > room) continue;
    std::set<int> hosts;
    for (const GpuId gpu : group) hosts.insert(topology.host_of(gpu));
    if (hosts.size() < 2) continue;
    ++spanning;
    if (first == nullptr) first = &group;
  }
  if (first == nullptr) return "";
  const bool nvlink = std::ranges::any_of(topology.vertices(), [](const Vertex& vertex) {
    return vertex.kind == VertexKind::nvswitch;
  });
  return fmt::format(
      "#   {} of {} {} several {} of {}, though each would fit into one: GPUs {}..{}{}\n", spanning,
      counted(groups.size(), "EP group"), spanning == 1 ? "spans" : "span",
      nvlink ? "NVLink domains" : "hosts", counted(room, "GPU"), first->front().value,
      first->back().value, spanning > 1 ? ", ..." : "");
}

std::string domains_text(const Topology& topology, int ep) {
  GpuGroups groups;
  for (const GpuId gpu : topology.all_gpus()) {
    if (gpu.value % ep == 0) groups.emplace_back();
    groups.back().push_back(gpu);
  }
  return domains_text(topology, groups);
}

}  // namespace moesim
