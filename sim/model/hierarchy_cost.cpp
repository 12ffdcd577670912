// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hierarchy_cost.h"

#include <algorithm>
#include <stdexcept>

namespace moesim {

std::vector<Seconds> depth_times(const CollectiveCosts& costs, const StageRows& rows, Bytes row) {
  if (rows.inter.size() != costs.inter.size() || rows.intra.size() != costs.intra.size()) {
    throw std::logic_error("the rows and the costs of a hierarchical all-to-all differ in levels");
  }
  const auto bytes = [&](double n) { return n * static_cast<double>(row.value); };
  std::vector<Seconds> times = {costs.flat.time(bytes(rows.flat))};
  Seconds outer;  // Inter-level-1 up to the level at hand
  for (std::size_t i = 0; i < costs.inter.size(); ++i) {
    outer += costs.inter[i].time(bytes(rows.inter[i]));
    times.push_back(outer + costs.intra[i].time(bytes(rows.intra[i])));
  }
  return times;
}

int best_depth(std::span<const Seconds> times) {
  if (times.size() < 2) return 1;
  const auto best = std::min_element(times.begin() + 1, times.end());
  return times.front() < *best ? 1 : static_cast<int>(best - times.begin()) + 1;
}

}  // namespace moesim
