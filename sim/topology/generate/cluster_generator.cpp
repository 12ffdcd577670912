// SPDX-License-Identifier: Apache-2.0
// Whole clusters: nodes, their fabric, and data centers joined by a WAN.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/topology/generate/fabric_generators.h"
#include "sim/topology/generate/size.h"
#include "sim/topology/no_limit.h"

namespace moesim {
namespace {

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
