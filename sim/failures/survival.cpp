// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/survival.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "sim/base/error.h"

namespace moesim {
namespace {

constexpr double most_sets = 2e6, drawn = 1e5;

/// The nodes that hold an expert, ascending.
using Holders = std::vector<int>;
using Lost = std::vector<char>;  // [node]

/// Of all experts that matter: one lives whenever some other does if it is on its nodes and more.
std::vector<Holders> holders_of(std::span<const SlotTable> layers, int gpus_per_node) {
  std::set<Holders> all;
  for (const SlotTable& table : layers) {
    std::vector<std::set<int>> nodes;
    for (std::size_t gpu = 0; gpu < table.size(); ++gpu) {
      for (const ExpertId expert : table[gpu]) {
        if (nodes.size() <= expert.index()) nodes.resize(expert.index() + 1);
        nodes[expert.index()].insert(static_cast<int>(gpu) / gpus_per_node);
      }
    }
    for (const auto& of_expert : nodes) all.insert(Holders(of_expert.begin(), of_expert.end()));
  }
  std::vector<Holders> least;
  for (const Holders& one : all) {
    const bool implied = std::ranges::any_of(all, [&](const Holders& other) {
      return other.size() < one.size() && std::ranges::includes(one, other);
    });
    if (!implied) least.push_back(one);
  }
  return least;
}

bool survives(const std::vector<Holders>& holders, const Lost& lost) {
  return std::ranges::none_of(holders, [&](const Holders& of_expert) {
    return std::ranges::all_of(of_expert,
                               [&](int node) { return lost[static_cast<std::size_t>(node)] != 0; });
  });
}

double sets_of(int nodes, int together) {
  double sets = 1;
  for (int i = 0; i < together; ++i) sets *= static_cast<double>(nodes - i) / (i + 1);
  return sets;
}

double share_of_all(const std::vector<Holders>& holders, Lost lost) {
  double good = 0, sets = 0;
  std::ranges::sort(lost);
  do {
    if (survives(holders, lost)) ++good;
    ++sets;
  } while (std::ranges::next_permutation(lost).found);
  return good / sets;
}

/// Drawn by a shuffle of our own, so that the figure is the same with every standard library.
double share_of_drawn(const std::vector<Holders>& holders, Lost lost) {
  std::mt19937_64 random(1);
  double good = 0;
  for (double set = 0; set < drawn; ++set) {
    for (std::size_t i = lost.size(); i > 1; --i) std::swap(lost[i - 1], lost[random() % i]);
    if (survives(holders, lost)) ++good;
  }
  return good / drawn;
}

}  // namespace

Survival survival(std::span<const SlotTable> layers, int gpus_per_node, int together) {
  const int gpus = layers.empty() ? 0 : static_cast<int>(layers.front().size());
  if (gpus_per_node < 1 || gpus % gpus_per_node != 0 || together < 1 ||
      together > gpus / std::max(gpus_per_node, 1)) {
    throw Error(fmt::format("{} nodes of {} GPUs cannot be lost of {} GPUs", together,
                            gpus_per_node, gpus));
  }
  const int nodes = gpus / gpus_per_node;
  const auto holders = holders_of(layers, gpus_per_node);
  Lost lost(static_cast<std::size_t>(nodes));
  std::fill_n(lost.begin(), together, 1);
  if (sets_of(nodes, together) <= most_sets) return {share_of_all(holders, lost), true};
  return {share_of_drawn(holders, lost), false};
}

}  // namespace moesim
