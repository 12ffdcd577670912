// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/narrow_front.h"

#include <fmt/format.h>

#include <map>

#include "sim/base/units.h"

namespace moesim {

std::string narrow_front(BytesPerSecond nic, BytesPerSecond front) {
  return fmt::format("a NIC of {} gets no more than PCIe's {}", to_string(nic), to_string(front));
}

std::string narrow_front_in(const Topology& topology) {
  const auto is_of = [&](const Link& link, const char* name) {
    return topology.classes()[static_cast<std::size_t>(link.link_class)].name == name;
  };
  std::map<VertexId, BytesPerSecond> fronts;
  for (const Link& link : topology.links()) {
    if (is_of(link, "pcie")) fronts[link.to] += link.bandwidth;
  }
  for (const Link& link : topology.links()) {
    const auto front = fronts.find(link.from);
    if (!is_of(link, "nic") || front == fronts.end()) continue;
    if (front->second < link.bandwidth) return narrow_front(link.bandwidth, front->second);
  }
  return "";
}

}  // namespace moesim
