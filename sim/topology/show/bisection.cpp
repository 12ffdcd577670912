// SPDX-License-Identifier: Apache-2.0
// Bisection bandwidth by max-flow.
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>

#include "sim/base/error.h"
#include "sim/topology/show/summary.h"

namespace moesim {
namespace {

using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::bidirectionalS>;

struct FlowVertex {
  int color = 0;
  std::int64_t distance = 0;
  Traits::edge_descriptor predecessor;
};

struct FlowEdge {
  std::int64_t capacity = 0;  // bytes per second
  std::int64_t residual = 0;
  Traits::edge_descriptor reverse{0, 0, nullptr};  // its own default leaves the ends open
};

using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, FlowVertex, FlowEdge>;

void add_edge(Graph& graph, std::size_t from, std::size_t to, std::int64_t capacity) {
  const auto forth = boost::add_edge(from, to, graph).first;
  const auto back = boost::add_edge(to, from, graph).first;
  graph[forth] = {capacity, 0, back};
  graph[back] = {0, 0, forth};
}

/// The GPUs of each half melt into one vertex: 0 the first half, 1 the second.
std::int64_t max_flow(const Topology& topology, const std::vector<bool>& second_half) {
  std::vector<std::size_t> vertex(topology.vertices().size());
  std::size_t next = 2;
  for (std::size_t v = 0; v < vertex.size(); ++v) vertex[v] = next++;
  for (int gpu = 0; gpu < topology.gpu_count(); ++gpu) {
    vertex[topology.vertex_of(GpuId(gpu)).index()] = second_half[gpu];
  }
  Graph graph(next);
  for (const Link& link : topology.links()) {
    const std::size_t from = vertex[link.from.index()];
    const std::size_t to = vertex[link.to.index()];
    // Flow into the source or out of the sink is of no use.
    if (from == to || from == 1 || to == 0) continue;
    add_edge(graph, from, to, std::llround(link.bandwidth.value));
  }
  return boost::boykov_kolmogorov_max_flow(
      graph, boost::get(&FlowEdge::capacity, graph), boost::get(&FlowEdge::residual, graph),
      boost::get(&FlowEdge::reverse, graph), boost::get(&FlowVertex::predecessor, graph),
      boost::get(&FlowVertex::color, graph), boost::get(&FlowVertex::distance, graph),
      boost::get(boost::vertex_index, graph), std::size_t{0}, std::size_t{1});
}

}  // namespace

Bisection bisection_of(const Topology& topology) {
  const int gpus = topology.gpu_count();
  if (gpus < 2) throw Error(topology.name() + ": one GPU has no bisection");
  Bisection result{"gpu", gpus / 2, gpus - gpus / 2, {}};
  const Level* level = nullptr;
  for (const Level& candidate : topology.levels()) {
    if (candidate.groups < 2) continue;
    level = &candidate;
    result = {level->name, level->groups / 2, level->groups - level->groups / 2, {}};
    break;
  }
  std::vector<bool> second_half;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    const int group = level == nullptr ? gpu : level->group_of[gpu];
    second_half.push_back(group >= result.first);
  }
  result.bandwidth = BytesPerSecond(static_cast<double>(max_flow(topology, second_half)));
  return result;
}

}  // namespace moesim
