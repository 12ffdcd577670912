// SPDX-License-Identifier: Apache-2.0
// Shortest distances by Boost.Graph, and the equal-cost next hops they imply.
#include "sim/topology/route/graph.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <numeric>
#include <utility>

namespace moesim {

/// The graph with its arcs turned round: distances to a target are distances from it there.
struct Digraph::Reversed {
  struct Cost {
    int cost;
  };
  using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, Cost>;
  Graph graph;
};

Digraph::Digraph(int vertices, std::vector<Arc> arcs)
    : arcs_(std::move(arcs)), first_(static_cast<std::size_t>(vertices) + 1, 0) {
  std::sort(arcs_.begin(), arcs_.end(), [](const Arc& a, const Arc& b) {
    return std::pair(a.from, a.link) < std::pair(b.from, b.link);
  });
  std::vector<std::pair<std::size_t, std::size_t>> ends;
  std::vector<Reversed::Cost> costs;
  for (const Arc& arc : arcs_) {
    ++first_[static_cast<std::size_t>(arc.from) + 1];
    ends.emplace_back(arc.to, arc.from);
    costs.push_back({arc.cost});
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
  reversed_ = std::make_unique<Reversed>(
      Reversed{Reversed::Graph(boost::edges_are_unsorted_multi_pass, ends.begin(), ends.end(),
                               costs.begin(), static_cast<std::size_t>(vertices))});
}

Digraph::~Digraph() = default;
Digraph::Digraph(Digraph&&) noexcept = default;

std::vector<int> Digraph::distances_to(int target) const {
  std::vector<int> distance(first_.size() - 1, unreachable);
  const auto& graph = reversed_->graph;
  boost::dijkstra_shortest_paths(graph, static_cast<std::size_t>(target),
                                 boost::weight_map(boost::get(&Reversed::Cost::cost, graph))
                                     .distance_map(boost::make_iterator_property_map(
                                         distance.begin(), boost::get(boost::vertex_index, graph)))
                                     .distance_inf(unreachable));
  return distance;
}

std::vector<int> farthest_first(const std::vector<int>& distance) {
  std::vector<int> order;
  for (std::size_t v = 0; v < distance.size(); ++v) {
    if (distance[v] < unreachable) order.push_back(static_cast<int>(v));
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return distance[static_cast<std::size_t>(a)] > distance[static_cast<std::size_t>(b)];
  });
  return order;
}

Dag dag_toward(const Digraph& graph, const std::vector<int>& distance) {
  Dag dag;
  for (const int v : farthest_first(distance)) {
    const std::size_t start = dag.hops.size();
    for (const Arc& arc : graph.out(v)) {
      if (distance[static_cast<std::size_t>(arc.to)] + arc.cost ==
          distance[static_cast<std::size_t>(v)]) {
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
