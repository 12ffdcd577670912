// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/narrow_front.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "sim/base/units.h"

namespace moesim {

std::string narrow_front(BytesPerSecond nic, BytesPerSecond front, int together) {
  if (together > 1) {
    return fmt::format("the {} NICs of a GPU, of {} each, together get no more than PCIe's {}",
                       together, to_string(nic), to_string(front));
  }
  return fmt::format("a NIC of {} gets no more than PCIe's {}", to_string(nic), to_string(front));
}

namespace {

/// NICs behind one switch of PCIe, and the links of GPUs to it.
struct SharedFront {
  BytesPerSecond front;
  std::vector<BytesPerSecond> nics;
  bool has_more = false;  // a socket or switch, by which the NICs reach other GPUs
};

std::string narrow_share(const SharedFront& shared) {
  BytesPerSecond all;
  for (const BytesPerSecond nic : shared.nics) all += nic;
  if (shared.has_more || shared.nics.size() < 2 || all <= shared.front) return "";
  return narrow_front(shared.nics.front(), shared.front, static_cast<int>(shared.nics.size()));
}

}  // namespace

std::string narrow_front_in(const Topology& topology) {
  const auto is_of = [&](const Link& link, const char* name) {
    return topology.classes()[static_cast<std::size_t>(link.link_class)].name == name;
  };
  const auto kind_of = [&](VertexId v) { return topology.vertices()[v.index()].kind; };
  std::map<VertexId, BytesPerSecond> fronts;
  std::map<VertexId, VertexId> switch_of;  // by NIC
  std::map<VertexId, SharedFront> shared;  // by switch
  for (const Link& link : topology.links()) {
    if (!is_of(link, "pcie")) continue;
    fronts[link.to] += link.bandwidth;
    if (kind_of(link.to) == VertexKind::pcie_switch) {
      SharedFront& front = shared[link.to];
      const VertexKind from = kind_of(link.from);
      if (from == VertexKind::gpu) front.front += link.bandwidth;
      if (from == VertexKind::socket || from == VertexKind::pcie_switch) front.has_more = true;
    }
    if (kind_of(link.from) == VertexKind::pcie_switch) switch_of.emplace(link.to, link.from);
  }
  for (const Link& link : topology.links()) {
    const auto front = fronts.find(link.from);
    if (!is_of(link, "nic") || front == fronts.end()) continue;
    if (front->second < link.bandwidth) return narrow_front(link.bandwidth, front->second);
    const auto behind = switch_of.find(link.from);
    if (behind != switch_of.end()) shared[behind->second].nics.push_back(link.bandwidth);
  }
  for (const auto& [vertex, front] : shared) {
    if (const std::string narrow = narrow_share(front); !narrow.empty()) return narrow;
  }
  return "";
}

}  // namespace moesim
