// SPDX-License-Identifier: Apache-2.0
// Sums over steps and layers, and how uneven they are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace moesim {

/// Adds values one by one; the shorter side counts as 0.
template <class T>
void add_to(std::vector<T>& sum, const std::vector<T>& values) {
  sum.resize(std::max(sum.size(), values.size()));
  for (std::size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
}

/// Largest / mean, 0 if there is no load: 1 is balanced.
inline double max_over_mean(const std::vector<std::int64_t>& load) {
  const auto sum = std::accumulate(load.begin(), load.end(), std::int64_t{0});
  if (sum == 0) return 0;
  return static_cast<double>(*std::max_element(load.begin(), load.end())) *
         static_cast<double>(load.size()) / static_cast<double>(sum);
}

}  // namespace moesim
