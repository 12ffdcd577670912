// SPDX-License-Identifier: Apache-2.0
// Counts and capacities of a cluster, and what looks odd about it.
#include "sim/topology/show/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

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

}  // namespace moesim
