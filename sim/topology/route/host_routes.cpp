// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/route/host_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <utility>

#include "sim/base/error.h"
#include "sim/topology/asymptote.h"

namespace moesim {
namespace {

/// Links that leave each vertex and stay in its host.
using LinksFrom = std::vector<std::vector<LinkId>>;

LinksFrom links_inside(const Topology::Parts& parts) {
  LinksFrom links(parts.vertices.size());
  for (std::size_t l = 0; l < parts.links.size(); ++l) {
    const Link& link = parts.links[l];
    const int host = parts.vertices[link.from.index()].host;
    if (host < 0 || parts.vertices[link.to.index()].host != host) continue;
    links[link.from.index()].emplace_back(static_cast<std::int64_t>(l));
  }
  return links;
}

/// The links of the cheapest path that passes no GPU, the lowest ids of several; empty: none.
std::vector<LinkId> path_inside(const Topology::Parts& parts, const LinksFrom& links, VertexId from,
                                VertexId to) {
  using Reached = std::pair<int, VertexId>;  // cost, vertex
  std::map<VertexId, std::pair<int, LinkId>> best = {{from, {0, LinkId(-1)}}};
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> open;
  open.push({0, from});
  while (!open.empty()) {
    const auto [cost, at] = open.top();
    open.pop();
    if (at == to) break;
    const bool passes = at == from || parts.vertices[at.index()].kind != VertexKind::gpu;
    if (!passes || cost > best.at(at).first) continue;
    for (const LinkId id : links[at.index()]) {
      const Link& link = parts.links[id.index()];
      const int there = cost + link.cost;
      const auto [known, fresh] = best.try_emplace(link.to, there, id);
      if (!fresh && known->second.first <= there) continue;
      known->second = {there, id};
      open.push({there, link.to});
    }
  }
  std::vector<LinkId> path;
  if (!best.contains(to)) return path;
  for (VertexId at = to; at != from; at = parts.links[path.back().index()].from) {
    path.push_back(best.at(at).second);
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace

std::vector<HostRoute> find_host_routes(const Topology::Parts& parts) {
  const auto known = [](VertexId vertex) { return vertex.value >= 0; };
  if (std::ranges::none_of(parts.host_memory, known)) return {};
  const LinksFrom links = links_inside(parts);
  std::vector<HostRoute> routes(parts.gpus.size());
  for (std::size_t rank = 0; rank < routes.size(); ++rank) {
    const VertexId memory = parts.host_memory[rank], gpu = parts.gpus[rank];
    if (!known(memory)) continue;
    routes[rank] = {path_inside(parts, links, gpu, memory), path_inside(parts, links, memory, gpu)};
    if (routes[rank].back.empty()) routes[rank].out.clear();
  }
  return routes;
}

std::vector<VertexId> nearest_sockets(const Topology::Parts& parts) {
  std::map<int, std::vector<VertexId>> sockets;  // [host]
  for (std::size_t v = 0; v < parts.vertices.size(); ++v) {
    if (parts.vertices[v].kind != VertexKind::socket) continue;
    sockets[parts.vertices[v].host].emplace_back(static_cast<std::int64_t>(v));
  }
  const LinksFrom links = links_inside(parts);
  const auto cost_of = [&](const std::vector<LinkId>& path) {
    int cost = path.empty() ? std::numeric_limits<int>::max() : 0;
    for (const LinkId link : path) cost += parts.links[link.index()].cost;
    return cost;
  };
  std::vector<VertexId> nearest;
  for (const VertexId gpu : parts.gpus) {
    int least = std::numeric_limits<int>::max();
    nearest.emplace_back(-1);
    for (const VertexId socket : sockets[parts.vertices[gpu.index()].host]) {
      const int cost = cost_of(path_inside(parts, links, gpu, socket));
      if (cost >= least) continue;
      least = cost;
      nearest.back() = socket;
    }
  }
  return nearest;
}

LinkLoads host_loads(const Topology& topology, const GroupTraffic& traffic) {
  std::map<LinkId, LinkUse> uses;
  LinkLoads loads;
  traffic.for_each([&](GpuId gpu, GpuId, Bytes bytes) {
    if (bytes == Bytes(0)) return;
    const HostRoute* route = topology.host_route(gpu);
    if (route == nullptr) {
      throw Error(fmt::format("GPU {} has no link to the memory of its host", gpu.value));
    }
    const std::vector<LinkId>& links = traffic.transposed ? route->back : route->out;
    Seconds latency;
    for (const LinkId id : links) latency += topology.link(id).latency;
    loads.latency = std::max(loads.latency, latency);
    for (const LinkId id : links) {
      const auto [use, fresh] = uses.try_emplace(id, LinkUse{id, {}, {}, latency});
      use->second.bytes += bytes;
      if (!fresh) use->second.first = std::min(use->second.first, latency);
    }
  });
  for (auto& [id, use] : uses) {
    const Link& link = topology.link(id);
    set_time(use, link, link.bandwidth);
    loads.uses.push_back(use);
  }
  loads.mean = loads.latency;
  return loads;
}

}  // namespace moesim
