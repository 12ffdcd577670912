// SPDX-License-Identifier: Apache-2.0
// Switched fabrics (one switch, rails, leaf-spine, fat-tree) and fabrics of routers joined directly
// (dragonfly, torus).
#include "sim/topology/generate/fabric_generators.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/topology/generate/builder.h"

namespace moesim {
namespace {

/// A switch and the bandwidth of what hangs below it.
struct Switch {
  int vertex;
  double down;
};

/// Every lower switch to every upper one. A lower one's uplinks are equal and have together what is
/// below it / oversubscription. Returns the bandwidth that the lower ones bring to each upper one.
double join_layers(Builder& builder, const std::vector<Switch>& lower,
                   const std::vector<int>& upper, const std::string& link_class,
                   double oversubscription, Seconds latency, int cost) {
  double brought = 0;
  for (const Switch& low : lower) {
    const Wire wire{BytesPerSecond(low.down / oversubscription / static_cast<double>(upper.size())),
                    latency};
    for (const int up : upper) {
      builder.cable(low.vertex, up, link_class, Tier::fabric, wire, cost);
    }
    brought += wire.bandwidth.value;
  }
  return brought;
}

std::vector<int> add_switches(Builder& builder, const std::string& name, VertexKind kind,
                              int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(builder.vertex(fmt::format("{}{}", name, i), kind));
  return out;
}

std::vector<int> vertices_of(const std::vector<Switch>& switches) {
  std::vector<int> out;
  for (const Switch& s : switches) out.push_back(s.vertex);
  return out;
}

/// NICs that `belongs` on leaves of nodes_per_leaf nodes each.
template <class Belongs>
std::vector<Switch> add_leaves(Builder& builder, const std::vector<Nic>& nics, int nodes,
                               int nodes_per_leaf, const std::string& name, Belongs&& belongs) {
  const int each = nodes_per_leaf > 0 ? nodes_per_leaf : std::max(nodes, 1);
  std::vector<Switch> leaves;
  for (const int vertex :
       add_switches(builder, name, VertexKind::leaf, (std::max(nodes, 1) + each - 1) / each)) {
    leaves.push_back({vertex, 0});
  }
  for (const Nic& nic : nics) {
    if (!belongs(nic)) continue;
    Switch& leaf = leaves[nic.node / each];
    builder.attach(nic, leaf.vertex);
    leaf.down += nic.wire.bandwidth.value;
  }
  return leaves;
}

}  // namespace

std::vector<int> build_switch(Builder& builder, const std::vector<Nic>& nics,
                              const std::string& prefix) {
  const int leaf = builder.vertex(prefix + "switch", VertexKind::leaf);
  for (const Nic& nic : nics) builder.attach(nic, leaf);
  return {leaf};
}

/// Leaf r of every group of nodes joins their NICs r. With pxn the leaves of one rail meet in
/// spines of their own; otherwise all leaves share the spines.
std::vector<int> build_rails(Builder& builder, const FabricSpec& spec, const std::vector<Nic>& nics,
                             int nodes, const std::string& prefix) {
  int rails = 0;
  for (const Nic& nic : nics) rails = std::max(rails, nic.rail + 1);
  std::vector<Switch> all_leaves;
  std::vector<int> top;
  const bool planes = spec.cross_rail == CrossRail::pxn;
  for (int r = 0; r < rails; ++r) {
    const std::vector<Switch> leaves = add_leaves(builder, nics, nodes, spec.nodes_per_leaf,
                                                  fmt::format("{}rail{}.leaf", prefix, r),
                                                  [&](const Nic& nic) { return nic.rail == r; });
    all_leaves.insert(all_leaves.end(), leaves.begin(), leaves.end());
    if (!planes || leaves.size() == 1) continue;
    const std::vector<int> spines = add_switches(builder, fmt::format("{}rail{}.spine", prefix, r),
                                                 VertexKind::spine, spec.spines);
    join_layers(builder, leaves, spines, "leaf-spine", spec.oversubscription, spec.latency,
                cost::fabric);
    top.insert(top.end(), spines.begin(), spines.end());
  }
  if (planes || all_leaves.size() == 1) return top.empty() ? vertices_of(all_leaves) : top;
  top = add_switches(builder, prefix + "spine", VertexKind::spine, spec.spines);
  join_layers(builder, all_leaves, top, "leaf-spine", spec.oversubscription, spec.latency,
              cost::cheap_fabric);
  return top;
}

std::vector<int> build_leaf_spine(Builder& builder, const FabricSpec& spec,
                                  const std::vector<Nic>& nics, int nodes,
                                  const std::string& prefix) {
  const std::vector<Switch> leaves = add_leaves(builder, nics, nodes, spec.nodes_per_leaf,
                                                prefix + "leaf", [](const Nic&) { return true; });
  if (leaves.size() == 1) return vertices_of(leaves);
  const std::vector<int> spines =
      add_switches(builder, prefix + "spine", VertexKind::spine, spec.spines);
  join_layers(builder, leaves, spines, "leaf-spine", spec.oversubscription, spec.latency,
              cost::fabric);
  return spines;
}

/// Pods of leaves and spines; spine j of every pod meets the cores j c/s ... (j + 1) c/s - 1.
std::vector<int> build_fat_tree(Builder& builder, const FabricSpec& spec,
                                const std::vector<Nic>& nics, int nodes,
                                const std::string& prefix) {
  const std::vector<Switch> leaves = add_leaves(builder, nics, nodes, spec.nodes_per_leaf,
                                                prefix + "leaf", [](const Nic&) { return true; });
  const std::size_t per_pod = static_cast<std::size_t>(spec.leaves_per_pod);
  const std::size_t pods = (leaves.size() + per_pod - 1) / per_pod;
  const std::vector<int> cores =
      pods > 1 ? add_switches(builder, prefix + "core", VertexKind::core, spec.cores)
               : std::vector<int>{};
  const auto ways = static_cast<std::ptrdiff_t>(spec.cores / spec.spines);
  for (std::size_t p = 0; p < pods; ++p) {
    const std::vector<Switch> pod(
        leaves.begin() + static_cast<std::ptrdiff_t>(p * per_pod),
        leaves.begin() + static_cast<std::ptrdiff_t>(std::min((p + 1) * per_pod, leaves.size())));
    const std::vector<int> spines = add_switches(builder, fmt::format("{}pod{}.spine", prefix, p),
                                                 VertexKind::spine, spec.spines);
    const double down = join_layers(builder, pod, spines, "leaf-spine", spec.oversubscription,
                                    spec.latency, cost::fabric);
    if (cores.empty()) return spines;
    for (std::size_t j = 0; j < spines.size(); ++j) {
      const auto first = cores.begin() + static_cast<std::ptrdiff_t>(j) * ways;
      join_layers(builder, {{spines[j], down}}, {first, first + ways}, "spine-core",
                  spec.core_oversubscription, spec.latency, cost::fabric);
    }
  }
  return cores;
}

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
