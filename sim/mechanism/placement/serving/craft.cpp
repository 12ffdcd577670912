// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/craft.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "sim/mechanism/placement/serving/eplb.h"

namespace moesim::craft {
namespace {

/// What is placed on a GPU so far.
struct Filling {
  int room = 0;
  double load = 0;
};

std::vector<Filling> empty_gpus(int slots, const LayerRoom& room) {
  std::vector<Filling> gpus(static_cast<std::size_t>(room.gpus), {slots / room.gpus});
  for (int i = 0; i < slots % room.gpus; ++i) {
    ++gpus[static_cast<std::size_t>((room.first_gpu + i) % room.gpus)].room;
  }
  return gpus;
}

std::size_t gpu_for(ExpertId expert, const std::vector<Filling>& gpus, const SlotTable& table) {
  const auto key = [&](std::size_t g) {
    const bool has = std::ranges::find(table[g], expert) != table[g].end();
    return std::tuple(gpus[g].room == 0, has, gpus[g].load, g);
  };
  std::size_t best = 0;
  for (std::size_t g = 1; g < gpus.size(); ++g) {
    if (key(g) < key(best)) best = g;
  }
  return best;
}

}  // namespace

SlotTable place(std::span<const double> loads, const LayerRoom& room) {
  const int slots = static_cast<int>(loads.size()) + room.replicas;
  const eplb::Replication copies = eplb::replicate(loads, slots);
  const auto load_of = [&](int expert) {
    const auto e = static_cast<std::size_t>(expert);
    return loads[e] / copies.copies[e];
  };
  std::vector<int> order = copies.expert_in;
  std::ranges::stable_sort(
      order, [&](int a, int b) { return std::pair(-load_of(a), a) < std::pair(-load_of(b), b); });
  SlotTable table(static_cast<std::size_t>(room.gpus));
  std::vector<Filling> gpus = empty_gpus(slots, room);
  for (const int expert : order) {
    const std::size_t g = gpu_for(ExpertId(expert), gpus, table);
    table[g].emplace_back(expert);
    --gpus[g].room;
    gpus[g].load += load_of(expert);
  }
  return table;
}

double balancedness(std::span<const double> loads, const SlotTable& table) {
  std::vector<int> copies(loads.size());
  for (const auto& gpu : table) {
    for (const ExpertId e : gpu) ++copies[e.index()];
  }
  double most = 0;
  for (const auto& gpu : table) {
    double load = 0;
    for (const ExpertId e : gpu) load += loads[e.index()] / copies[e.index()];
    most = std::max(most, load);
  }
  const double sum = std::accumulate(loads.begin(), loads.end(), 0.0);
  return most > 0 ? sum / static_cast<double>(table.size()) / most : 1;
}

std::vector<int> share(const std::vector<std::vector<double>>& gains, int budget) {
  const auto room = static_cast<std::size_t>(budget) + 1;
  std::vector<double> best(room);  // [replicas of the layers so far], at most
  std::vector<std::vector<int>> chosen;
  for (const std::vector<double>& of_layer : gains) {
    std::vector<double> next(room);
    std::vector<int>& choice = chosen.emplace_back(room);
    for (std::size_t b = 0; b < room; ++b) {
      next[b] = best[b] + of_layer[0];
      for (std::size_t r = 1; r < std::min(of_layer.size(), b + 1); ++r) {
        const double sum = best[b - r] + of_layer[r];
        if (sum <= next[b] + 1e-12) continue;
        next[b] = sum;
        choice[b] = static_cast<int>(r);
      }
    }
    best = std::move(next);
  }
  std::size_t left = 0;  // the least budget that reaches the best sum
  while (best[left] < best.back() - 1e-12) ++left;
  std::vector<int> result(gains.size());
  for (std::size_t layer = gains.size(); layer-- > 0;) {
    result[layer] = chosen[layer][left];
    left -= static_cast<std::size_t>(result[layer]);
  }
  return result;
}

std::vector<SlotTable> plan(const std::vector<std::vector<double>>& loads, int gpus, int budget,
                            int most) {
  std::vector<std::vector<double>> gains;
  for (const auto& of_layer : loads) {
    auto& gain = gains.emplace_back();
    for (int r = 0; r <= std::min(most, budget); ++r) {
      gain.push_back(balancedness(of_layer, place(of_layer, {gpus, r})));
    }
  }
  const std::vector<int> replicas = share(gains, budget);
  std::vector<SlotTable> tables;
  int first = 0;
  for (std::size_t layer = 0; layer < loads.size(); ++layer) {
    tables.push_back(place(loads[layer], {gpus, replicas[layer], first}));
    first = (first + static_cast<int>(loads[layer].size()) + replicas[layer]) % gpus;
  }
  return tables;
}

}  // namespace moesim::craft
