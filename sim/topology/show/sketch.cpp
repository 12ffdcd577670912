// SPDX-License-Identifier: Apache-2.0
// Folds look-alike hosts, and look-alike switches of the fabric, into one: a drawing of a thousand
// nodes would show nothing. Colour refinement tells which vertices look alike.
#include "sim/topology/show/sketch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

namespace moesim {
namespace {

constexpr int most_gpus_of_a_host = 16;  // a larger host is folded inside, too

/// "node0.gpu3" -> "node0" and "gpu3".
std::pair<std::string, std::string> split_name(const std::string& name) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos) return {"", name};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

std::string kind_label(VertexKind kind) {
  std::string name = name_of(kind);
  std::ranges::replace(name, '_', ' ');
  return name;
}

class Sketcher {
 public:
  Sketcher(const Topology& topology, bool everything)
      : topology_(topology), everything_(everything), drawn_(topology.vertices().size(), -1) {
    if (!everything) looks_ = look_alike_colors(topology);
  }

  Sketch run() {
    std::vector<std::vector<std::size_t>> members(topology_.host_count());
    std::vector<std::size_t> fabric;
    for (std::size_t v = 0; v < drawn_.size(); ++v) {
      const int host = topology_.vertices()[v].host;
      (host < 0 ? fabric : members[host]).push_back(v);
    }
    for (const auto& vertices : members) add_host(vertices);
    add_fabric(fabric);
    add_edges();
    label_folded();
    return std::move(sketch_);
  }

 private:
  int add_node(std::size_t v, int host) {
    const Vertex& vertex = topology_.vertices()[v];
    const std::string label = host < 0 ? vertex.name : split_name(vertex.name).second;
    sketch_.nodes.push_back({label, vertex.kind, host, 1});
    return static_cast<int>(sketch_.nodes.size()) - 1;
  }

  /// Draws a host, unless one with the same looks stands for it already. `vertices` ascend, so
  /// equal hosts have equal lists of looks.
  void add_host(const std::vector<std::size_t>& vertices) {
    std::vector<int> look;
    if (!everything_) {
      for (const std::size_t v : vertices) look.push_back(looks_[v]);
      const auto [first, fresh] = known_hosts_.try_emplace(look, vertices);
      if (!fresh) {
        for (std::size_t i = 0; i < vertices.size(); ++i) {
          drawn_[vertices[i]] = drawn_[first->second[i]];
        }
        const int node = drawn_[vertices.front()];
        ++sketch_.hosts[sketch_.nodes[node].host].count;
        return;
      }
    }
    const int host = static_cast<int>(sketch_.hosts.size());
    sketch_.hosts.push_back({split_name(topology_.vertices()[vertices.front()].name).first, 1});
    const auto gpus = std::ranges::count_if(
        vertices, [&](std::size_t v) { return topology_.vertices()[v].kind == VertexKind::gpu; });
    const bool fold = !everything_ && gpus > most_gpus_of_a_host;
    std::map<int, int> folded;
    for (std::size_t i = 0; i < vertices.size(); ++i) {
      if (!fold) {
        drawn_[vertices[i]] = add_node(vertices[i], host);
        continue;
      }
      const auto [at, fresh] = folded.try_emplace(look[i], 0);
      if (fresh) {
        at->second = add_node(vertices[i], host);
      } else {
        ++sketch_.nodes[at->second].count;
      }
      drawn_[vertices[i]] = at->second;
    }
  }

  void add_fabric(const std::vector<std::size_t>& vertices) {
    std::map<int, int> folded;
    for (const std::size_t v : vertices) {
      const auto [at, fresh] =
          folded.try_emplace(everything_ ? static_cast<int>(v) : looks_[v], -1);
      if (fresh) {
        at->second = add_node(v, -1);
      } else {
        ++sketch_.nodes[at->second].count;
      }
      drawn_[v] = at->second;
    }
  }

  /// Vertices that a node of the sketch stands for.
  double vertices_of(int n) const {
    const Sketch::Node& node = sketch_.nodes[n];
    const int hosts = node.host < 0 ? 1 : sketch_.hosts[node.host].count;
    return static_cast<double>(node.count) * hosts;
  }

  /// One edge for all links between two nodes of the sketch. A cable is two links, one each way,
  /// and counts once.
  void add_edges() {
    std::map<std::tuple<int, int, int>, std::pair<int, int>> links;  // forth and back
    for (const Link& link : topology_.links()) {
      const int from = drawn_[link.from.index()], to = drawn_[link.to.index()];
      auto& [forth, back] = links[{std::min(from, to), std::max(from, to), link.link_class}];
      ++(from <= to ? forth : back);
    }
    for (const auto& [key, count] : links) {
      auto [a, b, link_class] = key;
      auto [forth, back] = count;
      if (a == b) back = forth;  // both ends of a cable are here: `forth` counts ends
      if (forth == 0) {
        std::swap(a, b);
        std::swap(forth, back);
      }
      const double cables = std::max(forth, back);
      sketch_.edges.push_back(
          {a, b, link_class, cables / vertices_of(a), cables / vertices_of(b), back == 0});
    }
  }

  void label_folded() {
    for (Sketch::Node& node : sketch_.nodes) {
      if (node.count > 1) node.label = fmt::format("{} ×{}", kind_label(node.kind), node.count);
    }
    for (Sketch::Host& host : sketch_.hosts) {
      if (host.count > 1) host.label = fmt::format("{}, one of {} alike", host.label, host.count);
    }
  }

  const Topology& topology_;
  bool everything_;
  std::vector<int> looks_;
  std::vector<int> drawn_;  // per vertex the node that stands for it
  std::map<std::vector<int>, std::vector<std::size_t>> known_hosts_;
  Sketch sketch_;
};

/// What a vertex sees over one link: direction, class, bandwidth, neighbour's colour.
using Sight = std::array<std::int64_t, 4>;
/// A vertex's colour and its sorted sights.
using View = std::pair<int, std::vector<Sight>>;

std::vector<int> start_colors(const Topology& topology) {
  std::vector<std::string> model(topology.vertices().size());
  for (int gpu = 0; gpu < topology.gpu_count(); ++gpu) {
    model[topology.vertex_of(GpuId(gpu)).index()] = topology.gpu_model(GpuId(gpu));
  }
  std::map<std::pair<int, std::string>, int> known;
  std::vector<int> colors;
  for (std::size_t v = 0; v < model.size(); ++v) {
    const int kind = static_cast<int>(topology.vertices()[v].kind);
    colors.push_back(
        known.try_emplace({kind, model[v]}, static_cast<int>(known.size())).first->second);
  }
  return colors;
}

}  // namespace

Sketch make_sketch(const Topology& topology, bool everything) {
  return Sketcher(topology, everything).run();
}

std::vector<int> look_alike_colors(const Topology& topology) {
  std::vector<int> colors = start_colors(topology);
  int count = colors.empty() ? 0 : *std::ranges::max_element(colors) + 1;
  while (true) {
    std::vector<View> views(colors.size());
    for (std::size_t v = 0; v < colors.size(); ++v) views[v].first = colors[v];
    for (const Link& link : topology.links()) {
      const std::size_t from = link.from.index(), to = link.to.index();
      const auto rate = static_cast<std::int64_t>(link.bandwidth.value);
      views[from].second.push_back({0, link.link_class, rate, colors[to]});
      views[to].second.push_back({1, link.link_class, rate, colors[from]});
    }
    std::map<View, int> known;
    for (std::size_t v = 0; v < colors.size(); ++v) {
      std::ranges::sort(views[v].second);
      colors[v] =
          known.try_emplace(std::move(views[v]), static_cast<int>(known.size())).first->second;
    }
    if (static_cast<int>(known.size()) == count) return colors;
    count = static_cast<int>(known.size());
  }
}

}  // namespace moesim
