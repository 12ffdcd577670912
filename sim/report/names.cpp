// SPDX-License-Identifier: Apache-2.0
#include "sim/report/names.h"

#include <fmt/format.h>

namespace moesim {

std::string gpu_name(const Topology& topology, GpuId gpu) {
  return topology.vertices()[topology.vertex_of(gpu).index()].name;
}

std::string link_name(const Topology& topology, LinkId id) {
  const Link& link = topology.links()[id.index()];
  const std::string& from = topology.vertices()[link.from.index()].name;
  const std::string& to = topology.vertices()[link.to.index()].name;
  const std::size_t dot = from.rfind('.');
  const bool inside =
      dot != std::string::npos && dot == to.rfind('.') && from.compare(0, dot, to, 0, dot) == 0;
  return fmt::format("{} -> {}", from, inside ? to.substr(dot + 1) : to);
}

}  // namespace moesim
