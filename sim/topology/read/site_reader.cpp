// SPDX-License-Identifier: Apache-2.0
// The schema of a data center and of the WAN between data centers.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/topology/read/spec_reader.h"

namespace moesim {
namespace {

constexpr Range node_count{1, 1'000'000};

void read_groups(const YamlMap& map, SiteSpec& site) {
  if (const auto groups = map.find("groups")) {
    for (const YamlValue& value : groups->list()) {
      const YamlMap group = value.map();
      NodeGroup& nodes = site.groups.emplace_back();
      nodes.count = static_cast<int>(group.integer("nodes", node_count));
      if (const auto node = group.get("node")) nodes.node = read_node(node->map());
    }
    if (site.groups.empty())
      groups->error("'" + groups->path() + "' is empty", "a list of {nodes, node}");
    return;
  }
  NodeGroup nodes;
  nodes.count = static_cast<int>(map.integer("nodes", node_count));
  if (const auto node = map.get("node")) nodes.node = read_node(node->map());
  site.groups.push_back(std::move(nodes));
}

/// With nothing but pairs, every data center must be in one.
void check_joined(const YamlValue& pairs, const WanSpec& wan, int data_centers) {
  std::set<int> joined;
  for (const WanSpec::Special& pair : wan.special) joined.insert({pair.a, pair.b});
  for (int i = 0; i < data_centers; ++i) {
    if (joined.count(i) > 0) continue;
    return pairs.error(fmt::format("no pair joins data center {} to another", i),
                       "every data center needs a pair; they count from 0");
  }
}

/// Whoever asks for one node of a file of several knows that nothing joins it.
bool count_is_changed(const YamlMap& map) {
  const auto nodes = map.find("nodes");
  return nodes && nodes->line() == 0;
}

}  // namespace

SiteSpec read_site(const YamlMap& map, bool alone) {
  SiteSpec site;
  read_groups(map, site);
  const auto fabric = map.find("fabric");
  if (fabric) site.fabric = read_fabric(fabric->map(), site);
  const bool joined = site.fabric.kind != FabricKind::none;
  const bool none = !fabric || fabric->map().string("kind") == "none";
  if (none && site.nodes() > 1) {
    (fabric ? *fabric : map.value())
        .error(fmt::format("nothing joins the {} nodes", site.nodes()),
               "add 'fabric', such as fabric: {kind: switch}");
  } else if (joined && alone && site.nodes() == 1 && !count_is_changed(map)) {
    fabric->warning("'" + fabric->path() + "' has no effect: there is one node");
  }
  if (alone && site.nodes() == 1) {
    const auto node = map.find("node");
    if (node && !joined && !count_is_changed(map))
      warn_without_effect(node->map(), "nics", "there is one node");
    return site;
  }
  for (const NodeGroup& group : site.groups) {
    if (group.node.nics > 0 || group.node.gpus == 0) continue;
    map.value().error("nodes without 'nics' cannot reach each other", "add 'nics' to 'node'");
    break;
  }
  return site;
}

WanSpec read_wan(const YamlMap& map, int data_centers) {
  WanSpec wan;
  wan.kind = static_cast<WanKind>(map.choice("kind", {"hub", "mesh", "pairs"}));
  if (wan.kind != WanKind::pairs) wan.wire = read_wire(map, LinkKind::wan);
  const Range site{0, static_cast<double>(data_centers - 1)};
  const bool hub = wan.kind == WanKind::hub;
  const char* key = hub ? "uplinks" : "pairs";
  const auto list = wan.kind == WanKind::pairs ? map.get(key) : map.find(key);
  if (!list) return wan;
  std::set<std::pair<int, int>> seen;
  for (const YamlValue& value : list->list()) {
    const YamlMap entry = value.map();
    WanSpec::Special special;
    if (hub) {
      special.a = static_cast<int>(entry.integer("data_center", site));
    } else if (const auto between = entry.get("between")) {
      const std::vector<YamlValue> ends = between->list();
      if (ends.size() == 2) {
        special.a = static_cast<int>(ends[0].integer(site));
        special.b = static_cast<int>(ends[1].integer(site));
      }
      if (ends.size() != 2 || ends[0].string() == ends[1].string()) {
        between->error("'" + between->path() + "' must name two data centers", "such as [0, 1]");
      }
    }
    if (!seen.insert(std::minmax(special.a, special.b)).second) {
      value.error("'" + value.path() + "' is there twice");
    }
    special.wire = read_wire(entry, LinkKind::wan);
    wan.special.push_back(special);
  }
  if (wan.kind == WanKind::pairs && map.good({key})) check_joined(*list, wan, data_centers);
  return wan;
}

}  // namespace moesim
