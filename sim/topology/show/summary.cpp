// SPDX-License-Identifier: Apache-2.0
// Counts and capacities of a cluster, what looks odd about it, and its bisection by max-flow.
#include "sim/topology/show/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/boykov_kolmogorov_max_flow.hpp>
#include <cmath>
#include <map>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/topology/no_limit.h"

namespace moesim {
namespace {

template <class T>
void widen(Span<T>& span, T value) {
  span.least = std::min(span.least, value);
  span.most = std::max(span.most, value);
}

std::vector<LevelSummary> summarize_levels(const Topology& topology) {
  std::vector<LevelSummary> out;
  for (const Level& level : topology.levels()) {
    std::vector<int> sizes(level.groups, 0);
    for (const int group : level.group_of) ++sizes[group];
    const auto [least, most] = std::ranges::minmax(sizes);
    out.push_back({level.name, level.groups, {least, most}});
  }
  return out;
}

std::vector<GpuBandwidth> summarize_gpus(const Topology& topology) {
  std::vector<std::vector<BytesPerSecond>> out(
      topology.classes().size(), std::vector<BytesPerSecond>(topology.vertices().size()));
  for (const Link& link : topology.links()) {
    out[link.link_class][link.from.index()] += link.bandwidth;
  }
  std::vector<GpuBandwidth> result;
  for (std::size_t c = 0; c < out.size(); ++c) {
    const BytesPerSecond first = out[c][topology.vertex_of(GpuId(0)).index()];
    Span<BytesPerSecond> span{first, first};
    for (int gpu = 0; gpu < topology.gpu_count(); ++gpu) {
      widen(span, out[c][topology.vertex_of(GpuId(gpu)).index()]);
    }
    if (span.most.value > 0) result.push_back({topology.classes()[c].name, span});
  }
  return result;
}

Span<BytesPerSecond> summarize_nodes(const Topology& topology) {
  const std::vector<BytesPerSecond> out = out_of_hosts(topology);
  const auto [least, most] = std::ranges::minmax(out);
  return {least, most};
}

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

/// From vertex 0 to vertex 1.
std::int64_t flow_through(Graph& graph) {
  return boost::boykov_kolmogorov_max_flow(
      graph, boost::get(&FlowEdge::capacity, graph), boost::get(&FlowEdge::residual, graph),
      boost::get(&FlowEdge::reverse, graph), boost::get(&FlowVertex::predecessor, graph),
      boost::get(&FlowVertex::color, graph), boost::get(&FlowVertex::distance, graph),
      boost::get(boost::vertex_index, graph), std::size_t{0}, std::size_t{1});
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
  return flow_through(graph);
}

}  // namespace

std::string range_text(const Span<BytesPerSecond>& span) {
  if (span.least >= unlimited_bandwidth) return "no limit";
  if (span.least == span.most) return to_string(span.least);
  return to_string(span.least) + " ... " + to_string(span.most);
}

std::vector<ClassSummary> classes_of(const Topology& topology) {
  std::vector<ClassSummary> out;
  for (const LinkClass& c : topology.classes()) out.push_back({c.name, c.tier, 0, {}, {}});
  for (const Link& link : topology.links()) {
    ClassSummary& c = out[link.link_class];
    if (c.links++ == 0) {
      c.bandwidth = {link.bandwidth, link.bandwidth};
      c.latency = {link.latency, link.latency};
    }
    widen(c.bandwidth, link.bandwidth);
    widen(c.latency, link.latency);
  }
  return out;
}

Summary summarize(const Topology& topology) {
  Summary summary{summarize_levels(topology),
                  classes_of(topology),
                  summarize_gpus(topology),
                  summarize_nodes(topology),
                  {}};
  if (topology.gpu_count() > 1) summary.bisection = bisection_of(topology);
  return summary;
}

std::vector<std::string> oddities(const Topology& topology) {
  std::vector<std::string> out;
  const auto name = [&](VertexId v) { return topology.vertices()[v.index()].name; };
  std::map<std::pair<VertexId, VertexId>, double> bandwidth;
  std::vector<bool> used(topology.vertices().size(), false);
  for (const Link& link : topology.links()) {
    bandwidth[{link.from, link.to}] += link.bandwidth.value;
    used[link.from.index()] = used[link.to.index()] = true;
  }
  for (const auto& [ends, forth] : bandwidth) {
    const auto back = bandwidth.find({ends.second, ends.first});
    if (back == bandwidth.end()) {
      out.push_back(fmt::format("{} -> {} has no way back", name(ends.first), name(ends.second)));
    } else if (ends.first < ends.second && back->second != forth) {
      out.push_back(fmt::format("{} - {} has another bandwidth in each direction", name(ends.first),
                                name(ends.second)));
    }
  }
  for (std::size_t v = 0; v < used.size(); ++v) {
    if (!used[v] && topology.gpu_count() > 1) {
      out.push_back(fmt::format("{} has no links", topology.vertices()[v].name));
    }
  }
  return out;
}

std::vector<BytesPerSecond> out_of_hosts(const Topology& topology) {
  const auto host_of = [&](VertexId v) { return topology.vertices()[v.index()].host; };
  std::vector<std::vector<const Link*>> inside(static_cast<std::size_t>(topology.host_count()));
  for (const Link& link : topology.links()) {
    const int host = host_of(link.from);
    if (host >= 0) inside[static_cast<std::size_t>(host)].push_back(&link);
  }
  std::vector<BytesPerSecond> out;
  for (std::size_t host = 0; host < inside.size(); ++host) {
    std::map<VertexId, std::size_t> numbers;  // of what is inside and not a GPU
    const auto number = [&](VertexId v) -> std::size_t {
      if (host_of(v) != static_cast<int>(host)) return 1;
      if (topology.vertices()[v.index()].kind == VertexKind::gpu) return 0;
      return numbers.try_emplace(v, numbers.size() + 2).first->second;
    };
    for (const Link* link : inside[host]) number(link->from), number(link->to);
    Graph graph(numbers.size() + 2);
    for (const Link* link : inside[host]) {
      const std::size_t from = number(link->from), to = number(link->to);
      if (to != 0 && from != to) {
        add_edge(graph, from, to, std::llround(link->bandwidth.value));
      }
    }
    out.emplace_back(static_cast<double>(flow_through(graph)));
  }
  return out;
}

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
