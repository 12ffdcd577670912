// SPDX-License-Identifier: Apache-2.0
// The schema of a data center's fabric.
#include <fmt/format.h>

#include <algorithm>

#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

constexpr Range possible_count{1, 65536};
constexpr Range ratio{1e-3, 1e6};

int integer(const YamlMap& map, const std::string& key, int absent) {
  return static_cast<int>(map.integer(key, possible_count, absent));
}

int leaves(const FabricSpec& fabric, int nodes) {
  const int each = fabric.nodes_per_leaf > 0 ? fabric.nodes_per_leaf : std::max(nodes, 1);
  return (nodes + each - 1) / each;
}

/// What every fabric of leaves and spines has.
void read_leaves(const YamlMap& map, FabricSpec& fabric, int nodes, bool one_leaf) {
  if (one_leaf) {
    const std::string why = fmt::format("all {} nodes hang off one leaf", nodes);
    for (const char* key : {"spines", "oversubscription", "latency"}) {
      warn_without_effect(map, key, why);
    }
  } else {
    map.get("latency");
  }
  fabric.spines = integer(map, "spines", 1);
  fabric.oversubscription = map.number("oversubscription", ratio, 1);
  if (const auto latency = map.find("latency")) {
    fabric.latency = latency->seconds(possible_latency);
    warn_if_long(*latency, fabric.latency, LinkKind::fabric);
  }
}

void read_rail(const YamlMap& map, FabricSpec& fabric, const SiteSpec& site) {
  fabric.nodes_per_leaf = integer(map, "nodes_per_leaf", 0);
  fabric.cross_rail = static_cast<CrossRail>(map.choice("cross_rail", {"pxn", "spine"}, 0));
  const int rails = site.groups.empty() ? 1 : site.groups.front().node.nics;
  for (const NodeGroup& group : site.groups) {
    if (group.node.nics != rails) {
      map.value().error("a rail fabric needs as many NICs in every node",
                        "give every group the same nics.count, or another kind of fabric");
      break;
    }
  }
  if (rails == 1) warn_without_effect(map, "cross_rail", "with one NIC per node there is one rail");
  const bool one_leaf = leaves(fabric, site.nodes()) == 1;
  const bool joined = !one_leaf || (fabric.cross_rail == CrossRail::spine && rails > 1);
  read_leaves(map, fabric, site.nodes(), !joined);
}

void read_fat_tree(const YamlMap& map, FabricSpec& fabric, int nodes) {
  fabric.nodes_per_leaf = static_cast<int>(map.integer("nodes_per_leaf", possible_count));
  fabric.leaves_per_pod = static_cast<int>(map.integer("leaves_per_pod", possible_count));
  const int leaf_count = leaves(fabric, nodes);
  if (leaf_count <= fabric.leaves_per_pod) {
    const std::string why = fmt::format("all {} leaves are in one pod", leaf_count);
    for (const char* key : {"cores", "core_oversubscription"}) warn_without_effect(map, key, why);
  }
  read_leaves(map, fabric, nodes, leaf_count == 1);
  fabric.cores = integer(map, "cores", fabric.spines);
  fabric.core_oversubscription = map.number("core_oversubscription", ratio, 1);
  if (fabric.cores % fabric.spines != 0) {
    map.value().error(fmt::format("{} cores cannot be shared out evenly to the {} spines of a pod",
                                  fabric.cores, fabric.spines),
                      "cores: a multiple of spines");
  }
}

void read_dragonfly(const YamlMap& map, FabricSpec& fabric, int nodes) {
  fabric.groups = static_cast<int>(map.integer("groups", possible_count));
  fabric.routers = static_cast<int>(map.integer("routers", possible_count));
  fabric.nodes_per_router = static_cast<int>(map.integer("nodes_per_router", possible_count));
  const auto wire = [&](const char* key, bool used, const std::string& why) {
    if (!used) {
      warn_without_effect(map, key, why);
      return Wire{};
    }
    const auto value = map.get(key);
    return value ? read_wire(value->map(), LinkKind::fabric) : Wire{};
  };
  fabric.local = wire("local", fabric.routers > 1, "a group has one router");
  fabric.global = wire("global", fabric.groups > 1, "there is one group");
  const std::int64_t room = std::int64_t{fabric.groups} * fabric.routers * fabric.nodes_per_router;
  if (room < nodes) {
    map.value().error(
        fmt::format("{} groups x {} routers x {} nodes have room for {} nodes, not {}",
                    fabric.groups, fabric.routers, fabric.nodes_per_router, room, nodes),
        fmt::format("more groups, routers or nodes_per_router, or 'nodes: {}'", room));
  }
}

void read_torus(const YamlMap& map, FabricSpec& fabric, int nodes) {
  std::int64_t product = 1;
  std::string text;
  const auto dimensions = map.get("dimensions");
  if (!dimensions) return;
  for (const YamlValue& value : dimensions->list()) {
    fabric.dimensions.push_back(static_cast<int>(value.integer(possible_count)));
    product = std::min<std::int64_t>(product * fabric.dimensions.back(), 1'000'000'000);
    text += (text.empty() ? "" : " x ") + std::to_string(fabric.dimensions.back());
  }
  fabric.local = read_wire(map, LinkKind::fabric);
  if (product != nodes) {
    dimensions->error(fmt::format("{} = {} routers for {} nodes", text, product, nodes),
                      "a torus has one router per node");
  }
}

}  // namespace

FabricSpec read_fabric(const YamlMap& map, const SiteSpec& site) {
  FabricSpec fabric;
  const int nodes = site.nodes();
  fabric.kind = static_cast<FabricKind>(map.choice(
      "kind", {"none", "switch", "rail", "leaf-spine", "fat-tree", "dragonfly", "torus"}));
  switch (fabric.kind) {
    case FabricKind::none:
    case FabricKind::one_switch:
      break;
    case FabricKind::rail:
      read_rail(map, fabric, site);
      break;
    case FabricKind::leaf_spine:
      fabric.nodes_per_leaf = static_cast<int>(map.integer("nodes_per_leaf", possible_count));
      read_leaves(map, fabric, nodes, leaves(fabric, nodes) == 1);
      break;
    case FabricKind::fat_tree:
      read_fat_tree(map, fabric, nodes);
      break;
    case FabricKind::dragonfly:
      read_dragonfly(map, fabric, nodes);
      break;
    case FabricKind::torus:
      read_torus(map, fabric, nodes);
      break;
  }
  return fabric;
}

}  // namespace moesim
