// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/generate/size.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
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

}  // namespace

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

}  // namespace moesim
