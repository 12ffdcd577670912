// SPDX-License-Identifier: Apache-2.0
// Choices written by hand or drawn, and where they go.
#pragma once

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "sim/mechanism/owners.h"
#include "sim/plan/placement.h"
#include "sim/trace/batches.h"
#include "sim/trace/memory_step.h"

namespace moesim {

/// The tokens of one layer, spread over the ranks in equal consecutive runs.
struct RoutedLayer {
  RoutedLayer(int experts, int k, int ranks_count, const std::vector<int>& chosen)
      : top_k(k), array(experts, chosen) {
    const std::int64_t each = tokens() / ranks_count;
    for (int s = 0; s < ranks_count; ++s) ranks.push_back({{s * each, each}});
  }
  std::int64_t tokens() const { return array.count() / top_k; }
  IdRows ids() const { return {array.data(), array.width(), top_k, tokens()}; }
  std::vector<TokenRun> all() const { return {{0, tokens()}}; }

  int top_k;
  IdArray array;
  std::vector<std::vector<TokenRun>> ranks;
};

/// `top_k` different experts a token; half the draws are the smaller of two, so that loads differ.
inline RoutedLayer random_routed(unsigned seed, int experts, int top_k, int ranks, int per_rank) {
  std::mt19937 random(seed);
  const auto draw = [&] { return static_cast<int>(random() % static_cast<unsigned>(experts)); };
  std::vector<int> ids;
  for (int t = 0; t < ranks * per_rank; ++t) {
    std::set<int> chosen;
    while (static_cast<int>(chosen.size()) < top_k) {
      int e = draw();
      if (random() % 2 == 0) e = std::min(e, draw());
      if (chosen.insert(e).second) ids.push_back(e);
    }
  }
  return RoutedLayer(experts, top_k, ranks, ids);
}

/// A table from lists of expert ids.
inline SlotTable slots(const std::vector<std::vector<int>>& gpus) {
  SlotTable table;
  for (const auto& experts : gpus) table.emplace_back(experts.begin(), experts.end());
  return table;
}

/// Bytes of a list that leave a GPU: a transfer from a GPU to itself moves only between slots.
inline Bytes off_gpu(std::span<const ExpertTransfer> transfers) {
  Bytes sum;
  for (const ExpertTransfer& t : transfers) {
    if (t.from != t.to) sum += t.bytes;
  }
  return sum;
}

/// A matrix from rows of choices per expert, one row a source.
inline LoadMatrix loads_of(const std::vector<std::vector<std::int64_t>>& rows) {
  LoadMatrix loads(static_cast<int>(rows.size()), static_cast<int>(rows.front().size()));
  for (std::size_t s = 0; s < rows.size(); ++s) {
    for (std::size_t e = 0; e < rows[s].size(); ++e) {
      loads.at(GpuId(static_cast<std::int64_t>(s)), ExpertId(static_cast<std::int64_t>(e))) =
          rows[s][e];
    }
  }
  return loads;
}

}  // namespace moesim
