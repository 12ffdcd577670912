// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/member_nodes.h"

namespace moesim {

MemberNodes nodes_of(const std::vector<GpuId>& members, const Topology& topology) {
  std::vector<int> nodes;
  for (const GpuId gpu : members) nodes.push_back(topology.host_of(gpu));
  return by_node(nodes);
}

}  // namespace moesim
