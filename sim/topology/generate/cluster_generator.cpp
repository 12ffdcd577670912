// SPDX-License-Identifier: Apache-2.0
// Whole clusters: nodes, their fabric, and data centers joined by a WAN. How large one gets is
// checked before it takes memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/base/error.h"
#include "sim/topology/cluster_limits.h"
#include "sim/topology/generate/fabric_generators.h"
#include "sim/topology/generate/spec.h"
#include "sim/topology/no_limit.h"
#include "sim/topology/route/routes.h"

namespace moesim {
namespace {

/// Upper bounds; doubles, because products overflow integers.
struct Size {
  double hosts = 0, vertices = 0, cables = 0;
  double switches = 0, edges = 0;  // edges: switches that hosts hang at

  void add(const Size& more) {
    hosts += more.hosts;
    vertices += more.vertices;
    cables += more.cables;
    switches += more.switches;
    edges += more.edges;
  }
};

Size size_of(const NodeGroup& group) {
  const NodeSpec& node = group.node;
  const double gpus = node.gpus, nics = node.nics, count = group.count;
  const double tree = node.pcie.sockets * (1.0 + node.pcie.switches);
  const double nvlinks = node.nvlink == NvlinkKind::mesh ? gpus * (gpus - 1) / 2 : gpus;
  Size size;
  size.hosts = count;
  const double ports = node.shares_ports() ? gpus : 0;
  const double memories = node.c2c ? gpus : 0;
  size.vertices = count * (gpus + nics + tree + ports + memories + 1);
  size.cables = count * (nvlinks + gpus + 2 * nics + tree * tree + memories);
  return size;
}

Size size_of(const FabricSpec& fabric, double nodes, double rails) {
  const double each = fabric.nodes_per_leaf > 0 ? fabric.nodes_per_leaf : std::max(nodes, 1.0);
  const double leaves = std::ceil(nodes / each), spines = fabric.spines;
  const double routers = static_cast<double>(fabric.groups) * fabric.routers;
  Size size;
  switch (fabric.kind) {
    case FabricKind::none:
      break;
    case FabricKind::one_switch:
      size.edges = 1;
      break;
    case FabricKind::rail:
      size.edges = rails * leaves;
      size.cables = size.edges * spines;
      break;
    case FabricKind::leaf_spine:
      size.edges = leaves;
      size.cables = leaves * spines;
      break;
    case FabricKind::fat_tree:
      size.edges = leaves;
      size.cables = leaves * (spines + fabric.cores);
      break;
    case FabricKind::dragonfly:
      size.edges = routers;
      size.cables =
          (routers * fabric.routers + static_cast<double>(fabric.groups) * fabric.groups) / 2;
      break;
    case FabricKind::torus:
      size.edges = nodes;
      size.cables = nodes * static_cast<double>(fabric.dimensions.size());
      break;
  }
  size.switches = size.edges;
  size.vertices = size.edges;
  return size;
}

Size size_of(const SiteSpec& site) {
  Size size;
  double rails = 0;
  for (const NodeGroup& group : site.groups) {
    size.add(size_of(group));
    rails = std::max(rails, static_cast<double>(group.node.nics));
  }
  size.add(size_of(site.fabric, size.hosts, rails));
  return size;
}

void refuse_above(double most, double count, const char* what) {
  if (count <= most) return;
  throw Error(
      fmt::format("the cluster has {:.3g} {}, at most {:.3g} are possible", count, what, most),
      "fewer nodes, data centers, switches or GPUs joined with each other");
}

/// A file of a few bytes can ask for more switches and cables than fit the memory, or more routes
/// than can be computed. Throws Error for those.
void check_size(const ClusterSpec& spec, const ClusterLimits& limits) {
  Size size;
  for (const SiteSpec& site : spec.sites) size.add(size_of(site));
  const auto sites = static_cast<double>(spec.sites.size());
  if (spec.wan.kind == WanKind::mesh) size.cables += sites * (sites - 1) / 2;
  refuse_above(limits.vertices, size.vertices, "GPUs, NICs and switches");
  refuse_above(limits.cables, size.cables, "cables");
  refuse_above(most_route_pairs, size.edges * (size.switches + size.hosts),
               "routes between switches and hosts");
}

/// A data center's router toward the others. Its links are in no file and limit nothing.
int build_gateway(Builder& builder, const std::vector<int>& top, const std::vector<Nic>& nics,
                  const std::string& prefix) {
  const int router = builder.vertex(prefix + "wan", VertexKind::router);
  if (top.empty()) {
    for (const Nic& nic : nics) builder.attach(nic, router);
  }
  for (const int v : top) {
    builder.cable(v, router, "gateway", Tier::fabric, {unlimited_bandwidth, Seconds(0)},
                  cost::gateway);
  }
  return router;
}

}  // namespace

std::vector<int> build_fabric(Builder& builder, const FabricSpec& spec,
                              const std::vector<Nic>& nics, int nodes, const std::string& prefix) {
  switch (spec.kind) {
    case FabricKind::none:
      return {};
    case FabricKind::one_switch:
      return build_switch(builder, nics, prefix);
    case FabricKind::rail:
      return build_rails(builder, spec, nics, nodes, prefix);
    case FabricKind::leaf_spine:
      return build_leaf_spine(builder, spec, nics, nodes, prefix);
    case FabricKind::fat_tree:
      return build_fat_tree(builder, spec, nics, nodes, prefix);
    case FabricKind::dragonfly:
      return build_dragonfly(builder, spec, nics, prefix);
    case FabricKind::torus:
      return build_torus(builder, spec, nics, prefix);
  }
  return {};
}

void build_wan(Builder& builder, const WanSpec& spec, const std::vector<int>& routers) {
  const auto join = [&](int a, int b, Wire wire) {
    builder.cable(a, b, "wan", Tier::wan, wire, cost::wan);
  };
  const auto router = [&](int site) { return routers[site]; };
  const auto special = [&](int a, int b) {
    for (const WanSpec::Special& s : spec.special) {
      if ((s.a == a && s.b == b) || (s.a == b && s.b == a)) return s.wire;
    }
    return spec.wire;
  };
  const int sites = static_cast<int>(routers.size());
  if (spec.kind == WanKind::hub) {
    const int hub = builder.vertex("wan.hub", VertexKind::router);
    for (int s = 0; s < sites; ++s) join(router(s), hub, special(s, -1));
  } else if (spec.kind == WanKind::mesh) {
    for (int a = 0; a < sites; ++a) {
      for (int b = a + 1; b < sites; ++b) join(router(a), router(b), special(a, b));
    }
  } else {
    for (const WanSpec::Special& s : spec.special) join(router(s.a), router(s.b), s.wire);
  }
}

Topology::Parts build_cluster(const ClusterSpec& spec, const ClusterLimits& limits) {
  check_size(spec, limits);
  Builder builder;
  std::vector<int> routers;
  const bool wide = spec.sites.size() > 1;
  for (std::size_t s = 0; s < spec.sites.size(); ++s) {
    const SiteSpec& site = spec.sites[s];
    const std::string prefix = wide ? fmt::format("dc{}.", s) : "";
    const int group = builder.next_group(depth::data_center);
    std::vector<Nic> nics;
    int node = 0;
    for (const NodeGroup& nodes : site.groups) {
      for (int i = 0; i < nodes.count; ++i, ++node) {
        const auto more =
            build_node(builder, nodes.node, fmt::format("{}node{}.", prefix, node), node, group);
        nics.insert(nics.end(), more.begin(), more.end());
      }
    }
    if (!wide && site.fabric.kind == FabricKind::none) continue;
    const std::vector<int> top = build_fabric(builder, site.fabric, nics, node, prefix);
    if (wide) routers.push_back(build_gateway(builder, top, nics, prefix));
  }
  if (wide) build_wan(builder, spec.wan, routers);
  return builder.take(spec.name, spec.exchange_overhead, spec.peer_overhead);
}

}  // namespace moesim
