// SPDX-License-Identifier: Apache-2.0
// Vertices, cables and nesting levels of generated clusters.
#include "sim/topology/generate/builder.h"

#include <algorithm>
#include <array>
#include <utility>

namespace moesim {
namespace {

constexpr std::array level_names = {"data center", "node", "socket", "switch", "pair"};

}  // namespace

int Builder::vertex(std::string name, VertexKind kind, int host) {
  parts_.vertices.push_back({std::move(name), kind, host});
  return static_cast<int>(parts_.vertices.size()) - 1;
}

void Builder::cable(int a, int b, const std::string& link_class, Tier tier, Wire wire, int cost) {
  std::size_t c = 0;
  while (c < parts_.classes.size() && parts_.classes[c].name != link_class) ++c;
  if (c == parts_.classes.size()) parts_.classes.push_back({link_class, tier});
  const auto add = [&](int from, int to) {
    parts_.links.push_back({VertexId(from), VertexId(to), wire.bandwidth, wire.latency,
                            static_cast<int>(c), cost, wire.crowded, wire.table});
  };
  add(a, b);
  add(b, a);
}

void Builder::attach(const Nic& nic, int fabric_vertex) {
  cable(nic.vertex, fabric_vertex, "nic", Tier::fabric, nic.wire, cost::nic);
}

void Builder::gpu(int vertex, const std::string& model, std::map<int, int> groups) {
  parts_.gpus.emplace_back(vertex);
  parts_.gpu_model.push_back(model);
  groups_of_.push_back(std::move(groups));
}

void Builder::host_memory(const std::vector<int>& vertices) {
  parts_.host_memory.resize(parts_.gpus.size(), VertexId(-1));
  std::ranges::transform(vertices, parts_.host_memory.end() - std::ssize(vertices),
                         [](int vertex) { return VertexId(vertex); });
}

Topology::Parts Builder::take(std::string name, Seconds exchange_overhead, Seconds peer_overhead) {
  parts_.name = std::move(name);
  parts_.exchange_overhead = exchange_overhead;
  parts_.peer_overhead = peer_overhead;
  if (!parts_.host_memory.empty()) parts_.host_memory.resize(parts_.gpus.size(), VertexId(-1));
  parts_.levels.push_back({"cluster", std::vector<int>(parts_.gpus.size(), 0), 1});
  for (std::size_t d = 0; d < level_names.size(); ++d) {
    const Level& above = parts_.levels.back();
    Level level{level_names[d], {}, 0};
    bool named = false;
    std::pair<int, int> last{-1, -1};
    for (std::size_t rank = 0; rank < groups_of_.size(); ++rank) {
      // A GPU without this level (in a mixed cluster) belongs to its group of the level above.
      const auto at = groups_of_[rank].find(static_cast<int>(d));
      named = named || at != groups_of_[rank].end();
      const std::pair<int, int> group{above.group_of[rank],
                                      at == groups_of_[rank].end() ? -1 : at->second};
      if (rank == 0 || group != last) ++level.groups;
      last = group;
      level.group_of.push_back(level.groups - 1);
    }
    if (named && level.groups > above.groups) parts_.levels.push_back(std::move(level));
  }
  return std::move(parts_);
}

}  // namespace moesim
