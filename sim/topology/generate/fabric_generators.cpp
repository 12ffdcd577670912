// SPDX-License-Identifier: Apache-2.0
// Switched fabrics: one switch, rails, leaf-spine, fat-tree.
#include "sim/topology/generate/fabric_generators.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/topology/generate/builder.h"

namespace moesim {
namespace {

/// A layer of switches that hang below common ones above; all uplinks are equal.
void join_layers(Builder& builder, const std::vector<int>& lower, const std::vector<int>& upper,
                 const std::string& link_class, Wire wire, int cost) {
  for (const int low : lower) {
    for (const int up : upper) builder.cable(low, up, link_class, Tier::fabric, wire, cost);
  }
}

std::vector<int> add_switches(Builder& builder, const std::string& name, VertexKind kind,
                              int count) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(builder.vertex(fmt::format("{}{}", name, i), kind));
  return out;
}

/// A leaf's bandwidth toward its nodes: the most that any leaf has.
struct Leaves {
  std::vector<int> vertices;
  double down = 0;
};

/// NICs that `belongs` on leaves of nodes_per_leaf nodes each.
template <class Belongs>
Leaves add_leaves(Builder& builder, const std::vector<Nic>& nics, int nodes, int nodes_per_leaf,
                  const std::string& name, Belongs&& belongs) {
  const int each = nodes_per_leaf > 0 ? nodes_per_leaf : std::max(nodes, 1);
  Leaves leaves;
  leaves.vertices =
      add_switches(builder, name, VertexKind::leaf, (std::max(nodes, 1) + each - 1) / each);
  std::vector<double> down(leaves.vertices.size(), 0);
  for (const Nic& nic : nics) {
    if (!belongs(nic)) continue;
    const auto leaf = static_cast<std::size_t>(nic.node / each);
    builder.attach(nic, leaves.vertices[leaf]);
    down[leaf] += nic.wire.bandwidth.value;
  }
  leaves.down = *std::ranges::max_element(down);
  return leaves;
}

Wire uplink(const FabricSpec& spec, double down, double oversubscription, std::size_t ways) {
  return {BytesPerSecond(down / oversubscription / static_cast<double>(ways)), spec.latency};
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
  std::vector<int> all_leaves, top;
  double down = 0;
  const bool planes = spec.cross_rail == CrossRail::pxn;
  for (int r = 0; r < rails; ++r) {
    const Leaves leaves = add_leaves(builder, nics, nodes, spec.nodes_per_leaf,
                                     fmt::format("{}rail{}.leaf", prefix, r),
                                     [&](const Nic& nic) { return nic.rail == r; });
    down = std::max(down, leaves.down);
    all_leaves.insert(all_leaves.end(), leaves.vertices.begin(), leaves.vertices.end());
    if (!planes || leaves.vertices.size() == 1) continue;
    const std::vector<int> spines = add_switches(builder, fmt::format("{}rail{}.spine", prefix, r),
                                                 VertexKind::spine, spec.spines);
    join_layers(builder, leaves.vertices, spines, "leaf-spine",
                uplink(spec, leaves.down, spec.oversubscription, spines.size()), cost::fabric);
    top.insert(top.end(), spines.begin(), spines.end());
  }
  if (planes || all_leaves.size() == 1) return top.empty() ? all_leaves : top;
  top = add_switches(builder, prefix + "spine", VertexKind::spine, spec.spines);
  join_layers(builder, all_leaves, top, "leaf-spine",
              uplink(spec, down, spec.oversubscription, top.size()), cost::cheap_fabric);
  return top;
}

std::vector<int> build_leaf_spine(Builder& builder, const FabricSpec& spec,
                                  const std::vector<Nic>& nics, int nodes,
                                  const std::string& prefix) {
  const Leaves leaves = add_leaves(builder, nics, nodes, spec.nodes_per_leaf, prefix + "leaf",
                                   [](const Nic&) { return true; });
  if (leaves.vertices.size() == 1) return leaves.vertices;
  const std::vector<int> spines =
      add_switches(builder, prefix + "spine", VertexKind::spine, spec.spines);
  join_layers(builder, leaves.vertices, spines, "leaf-spine",
              uplink(spec, leaves.down, spec.oversubscription, spines.size()), cost::fabric);
  return spines;
}

/// Pods of leaves and spines; spine j of every pod meets the cores j c/s ... (j + 1) c/s - 1.
std::vector<int> build_fat_tree(Builder& builder, const FabricSpec& spec,
                                const std::vector<Nic>& nics, int nodes,
                                const std::string& prefix) {
  const Leaves leaves = add_leaves(builder, nics, nodes, spec.nodes_per_leaf, prefix + "leaf",
                                   [](const Nic&) { return true; });
  const std::size_t per_pod = static_cast<std::size_t>(spec.leaves_per_pod);
  const std::size_t pods = (leaves.vertices.size() + per_pod - 1) / per_pod;
  const std::vector<int> cores =
      pods > 1 ? add_switches(builder, prefix + "core", VertexKind::core, spec.cores)
               : std::vector<int>{};
  const Wire up =
      uplink(spec, leaves.down, spec.oversubscription, static_cast<std::size_t>(spec.spines));
  const std::size_t ways = static_cast<std::size_t>(spec.cores / spec.spines);
  const Wire core_up = uplink(spec, up.bandwidth.value * static_cast<double>(per_pod),
                              spec.core_oversubscription, ways);
  std::vector<int> top = cores;
  for (std::size_t p = 0; p < pods; ++p) {
    const auto begin = leaves.vertices.begin() + static_cast<std::ptrdiff_t>(p * per_pod);
    const std::vector<int> pod(
        begin, leaves.vertices.begin() + static_cast<std::ptrdiff_t>(
                                             std::min((p + 1) * per_pod, leaves.vertices.size())));
    const std::vector<int> spines = add_switches(builder, fmt::format("{}pod{}.spine", prefix, p),
                                                 VertexKind::spine, spec.spines);
    join_layers(builder, pod, spines, "leaf-spine", up, cost::fabric);
    if (cores.empty()) top = spines;
    for (std::size_t j = 0; j < spines.size() && !cores.empty(); ++j) {
      const auto first = cores.begin() + static_cast<std::ptrdiff_t>(j * ways);
      join_layers(builder, {spines[j]}, {first, first + static_cast<std::ptrdiff_t>(ways)},
                  "spine-core", core_up, cost::fabric);
    }
  }
  return top;
}

}  // namespace moesim
