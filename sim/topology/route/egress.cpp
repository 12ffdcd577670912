// SPDX-License-Identifier: Apache-2.0
// How traffic leaves a host: the least total cost through one of its ports.
#include <algorithm>

#include "sim/topology/route/routes.h"

namespace moesim {
namespace {

std::vector<int> potentials(const HostType& type, const std::vector<int>& beyond) {
  std::vector<int> least(type.inside.size(), unreachable);
  for (std::size_t p = 0; p < type.up.size(); ++p) {
    if (beyond[p] == unreachable) continue;
    for (std::size_t v = 0; v < least.size(); ++v) {
      const int inside = type.distance_to_port[p][v];
      if (inside == unreachable) continue;
      least[v] = std::min(least[v], inside + type.up[p].cost + beyond[p]);
    }
  }
  return least;
}

/// Arcs inside the host and ports out of it, by ascending link.
Dag dag_out(const HostType& type, const std::vector<int>& beyond, const std::vector<int>& least) {
  Dag dag;
  for (const int v : farthest_first(least)) {
    const auto here = static_cast<std::size_t>(v);
    const std::size_t start = dag.hops.size();
    for (const Arc& arc : type.inside.out(v)) {
      if (least[arc.to] + arc.cost == least[here]) {
        dag.hops.push_back({arc.link, arc.to});
      }
    }
    for (std::size_t p = 0; p < type.up.size(); ++p) {
      const Port& port = type.up[p];
      if (port.vertex == v && beyond[p] < unreachable && port.cost + beyond[p] == least[here]) {
        dag.hops.push_back({port.link, -1});
      }
    }
    if (dag.hops.size() == start) continue;
    std::sort(dag.hops.begin() + static_cast<std::ptrdiff_t>(start), dag.hops.end(),
              [](const Dag::Hop& a, const Dag::Hop& b) { return a.link < b.link; });
    dag.order.push_back(v);
    dag.first.push_back(start);
  }
  dag.first.push_back(dag.hops.size());
  return dag;
}

/// Walks the next hops of one GPU; notes its exits and whether it has to choose anywhere.
void find_exits(const HostType& type, Egress& egress, int gpu) {
  constexpr double absent = -1;
  std::vector<double> latency(type.inside.size(), absent);
  latency[gpu] = 0;
  std::vector<Egress::Exit> exits;
  for (std::size_t i = 0; i < egress.dag.order.size(); ++i) {
    const double so_far = latency[egress.dag.order[i]];
    if (so_far == absent) continue;
    if (egress.dag.first[i + 1] - egress.dag.first[i] > 1) egress.single = false;
    for (std::size_t k = egress.dag.first[i]; k < egress.dag.first[i + 1]; ++k) {
      const Dag::Hop& hop = egress.dag.hops[k];
      if (hop.to < 0) {
        const auto port = std::find_if(type.up.begin(), type.up.end(),
                                       [&](const Port& p) { return p.link == hop.link; });
        exits.push_back({static_cast<int>(port - type.up.begin()), so_far + port->latency});
        continue;
      }
      for (const Arc& arc : type.inside.out(egress.dag.order[i])) {
        if (arc.link != hop.link) continue;
        double& there = latency[hop.to];
        there = std::max(there, so_far + arc.latency);
      }
    }
  }
  egress.complete = egress.complete && !exits.empty();
  egress.exits.push_back(std::move(exits));
}

}  // namespace

Egress egress_toward(const HostType& type, const std::vector<int>& beyond) {
  Egress egress;
  egress.dag = dag_out(type, beyond, potentials(type, beyond));
  for (const int gpu : type.gpus) find_exits(type, egress, gpu);
  return egress;
}

}  // namespace moesim
