// SPDX-License-Identifier: Apache-2.0
// Colour refinement: which vertices of a cluster look alike.
#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "sim/topology/show/sketch.h"

namespace moesim {
namespace {

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
