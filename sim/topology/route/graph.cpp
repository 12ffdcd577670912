// SPDX-License-Identifier: Apache-2.0
// Least distances, and the equal-cost next hops they imply.
#include "sim/topology/route/graph.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/topology/route/dijkstra.h"

namespace moesim {
namespace {

/// Where the arcs of every vertex start among `arcs`, which are sorted by `end`.
std::vector<std::size_t> starts(int vertices, const std::vector<Arc>& arcs, int Arc::*end) {
  std::vector<std::size_t> first(static_cast<std::size_t>(vertices) + 1, 0);
  for (const Arc& arc : arcs) ++first[static_cast<std::size_t>(arc.*end) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  return first;
}

}  // namespace

Digraph::Digraph(int vertices, std::vector<Arc> arcs) : arcs_(std::move(arcs)), entering_(arcs_) {
  std::sort(arcs_.begin(), arcs_.end(), [](const Arc& a, const Arc& b) {
    return std::pair(a.from, a.link) < std::pair(b.from, b.link);
  });
  std::sort(entering_.begin(), entering_.end(),
            [](const Arc& a, const Arc& b) { return a.to < b.to; });
  first_ = starts(vertices, arcs_, &Arc::from);
  first_entering_ = starts(vertices, entering_, &Arc::to);
}

std::vector<int> Digraph::distances_to(int target) const {
  std::vector<int> distance(first_.size() - 1, unreachable);
  least_costs(static_cast<std::size_t>(target), distance, [&](std::size_t v, auto&& use) {
    for (std::size_t i = first_entering_[v]; i < first_entering_[v + 1]; ++i) {
      use(static_cast<std::size_t>(entering_[i].from), entering_[i].cost);
    }
  });
  return distance;
}

std::vector<int> farthest_first(const std::vector<int>& distance) {
  std::vector<int> order;
  for (std::size_t v = 0; v < distance.size(); ++v) {
    if (distance[v] < unreachable) order.push_back(static_cast<int>(v));
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return distance[a] > distance[b]; });
  return order;
}

Dag dag_toward(const Digraph& graph, const std::vector<int>& distance) {
  Dag dag;
  for (const int v : farthest_first(distance)) {
    const std::size_t start = dag.hops.size();
    for (const Arc& arc : graph.out(v)) {
      if (distance[arc.to] + arc.cost == distance[v]) {
        dag.hops.push_back({arc.link, arc.to});
      }
    }
    if (dag.hops.size() == start) continue;
    dag.order.push_back(v);
    dag.first.push_back(start);
  }
  dag.first.push_back(dag.hops.size());
  return dag;
}

std::vector<double> longest_latency(const Digraph& graph, const std::vector<int>& distance,
                                    std::vector<double> at_end) {
  const std::vector<int> order = farthest_first(distance);
  for (auto v = order.rbegin(); v != order.rend(); ++v) {
    for (const Arc& arc : graph.out(*v)) {
      const auto to = static_cast<std::size_t>(arc.to);
      const auto from = static_cast<std::size_t>(*v);
      if (distance[to] + arc.cost == distance[from]) {
        at_end[from] = std::max(at_end[from], at_end[to] + arc.latency);
      }
    }
  }
  return at_end;
}

}  // namespace moesim
