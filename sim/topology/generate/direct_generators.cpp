// SPDX-License-Identifier: Apache-2.0
// Fabrics of routers joined directly: dragonfly and torus.
#include <fmt/format.h>

#include "sim/topology/generate/fabric_generators.h"

namespace moesim {

/// Kim et al., ISCA 2008, minimal routes: routers of a group all joined, one cable between any two
/// groups, a group's cables dealt to its routers in turn.
std::vector<int> build_dragonfly(Builder& builder, const FabricSpec& spec,
                                 const std::vector<Nic>& nics, const std::string& prefix) {
  std::vector<std::vector<int>> groups;
  for (int g = 0; g < spec.groups; ++g) {
    std::vector<int>& group = groups.emplace_back();
    for (int r = 0; r < spec.routers; ++r) {
      group.push_back(
          builder.vertex(fmt::format("{}group{}.router{}", prefix, g, r), VertexKind::router));
      for (int other = 0; other < r; ++other) {
        builder.cable(group[other], group.back(), "local", Tier::fabric, spec.local, cost::fabric);
      }
    }
  }
  const auto port = [&](int from, int to) {
    const int number = to > from ? to - 1 : to;
    return groups[from][number % spec.routers];
  };
  for (int a = 0; a < spec.groups; ++a) {
    for (int b = a + 1; b < spec.groups; ++b) {
      builder.cable(port(a, b), port(b, a), "global", Tier::fabric, spec.global, cost::global);
    }
  }
  for (const Nic& nic : nics) {
    const int router = nic.node / spec.nodes_per_router;
    builder.attach(nic, groups[router / spec.routers][router % spec.routers]);
  }
  return {groups[0][0]};
}

/// One router per node, the last dimension varies fastest; a ring of two is one cable.
std::vector<int> build_torus(Builder& builder, const FabricSpec& spec, const std::vector<Nic>& nics,
                             const std::string& prefix) {
  int count = 1;
  for (const int d : spec.dimensions) count *= d;
  std::vector<int> routers;
  for (int i = 0; i < count; ++i) {
    routers.push_back(builder.vertex(fmt::format("{}router{}", prefix, i), VertexKind::router));
  }
  int stride = count;
  for (const int d : spec.dimensions) {
    stride /= d;
    for (int i = 0; i < count; ++i) {
      const int here = i / stride % d;
      const int next = i + ((here + 1) % d - here) * stride;
      if (d == 1 || (d == 2 && here == 1)) continue;
      builder.cable(routers[i], routers[next], "torus", Tier::fabric, spec.local, cost::fabric);
    }
  }
  for (const Nic& nic : nics) builder.attach(nic, routers[nic.node]);
  return {routers[0]};
}

}  // namespace moesim
