// SPDX-License-Identifier: Apache-2.0
// Least costs through a graph (Dijkstra), whatever costs and arcs are.
#pragma once

#include <cstddef>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace moesim {

/// Lowers `least`, which holds one cost per vertex (infinite ones at first), to what the way from
/// `start` costs; each_arc(v, use) calls use(next, cost) for the arcs of vertex v.
template <class Cost, class EachArc>
void least_costs(std::size_t start, std::vector<Cost>& least, EachArc&& each_arc) {
  using Reached = std::pair<Cost, std::size_t>;
  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> nearest;
  least[start] = Cost(0);
  nearest.emplace(Cost(0), start);
  while (!nearest.empty()) {
    const Cost cost = nearest.top().first;
    const std::size_t vertex = nearest.top().second;
    nearest.pop();
    if (cost > least[vertex]) continue;
    each_arc(vertex, [&](std::size_t next, Cost more) {
      if (cost + more >= least[next]) return;
      least[next] = cost + more;
      nearest.emplace(least[next], next);
    });
  }
}

}  // namespace moesim
