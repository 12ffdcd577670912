// SPDX-License-Identifier: Apache-2.0
#include "sim/export/rank_costs.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/plan/exchange_time.h"

namespace moesim {

std::vector<std::vector<Seconds>> rank_costs(const Topology& topology, Bytes size) {
  const std::array<std::int64_t, 4> bytes = {0, size.value, 0, 0};
  const ByteMatrix one_way = ByteMatrix::from_dense(2, bytes);
  const auto ranks = static_cast<std::size_t>(topology.gpu_count());
  std::vector costs(ranks, std::vector<Seconds>(ranks));
  for (std::size_t low = 0; low < ranks; ++low) {
    for (std::size_t high = low + 1; high < ranks; ++high) {
      const std::array pair = {GpuId(static_cast<int>(low)), GpuId(static_cast<int>(high))};
      for (const bool back : {false, true}) {
        const ExchangeTime time = exchange_time(topology.loads({one_way, pair, back}));
        (back ? costs[high][low] : costs[low][high]) = time.latency + time.transfer;
      }
    }
  }
  return costs;
}

std::string rank_costs_text(const std::vector<std::vector<Seconds>>& costs) {
  nlohmann::ordered_json matrix = nlohmann::ordered_json::array();
  for (const auto& from : costs) {
    auto& row = matrix.emplace_back(nlohmann::ordered_json::array());
    // Picoseconds are enough, and the last bits of sums are noise.
    for (const Seconds cost : from) row.push_back(std::round(cost.value * 1e12) / 1e6);
  }
  return nlohmann::ordered_json{{"rank_cost_matrix", matrix}}.dump() + "\n";
}

}  // namespace moesim
