// SPDX-License-Identifier: Apache-2.0
// Statistics of repeated times that a few disturbed ones do not move.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace moesim {

/// Throws std::invalid_argument if there are no values.
double median(std::vector<double> values);

/// The upper of the two in the middle, for even counts: a value that occurred. Throws
/// std::invalid_argument if there are no values.
template <class Value>
Value upper_median(std::vector<Value> values) {
  if (values.empty()) throw std::invalid_argument("the median of nothing");
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

double median_deviation(const std::vector<double>& values, double middle);

/// Half of the 95 % interval of the median of so many values with this median deviation.
double median_interval(double deviation, std::size_t count);

/// A median without outliers.
struct Robust {
  double value = 0;   // median of the kept
  double spread = 0;  // 95 % half-width of that median, as a part of it; 0 with fewer than two
  double least = 0, most = 0;  // of the kept
  int kept = 0, rejected = 0;
};

/// If there are three or more, values further from their median than 3.5 scaled median deviations
/// (of at least 1 %) are rejected. Throws std::invalid_argument when there are none.
Robust robust_median(std::vector<double> values);

/// Pools neighbours until levels ascend: if a pool's level is below that of the pool before it,
/// `join(before, pool)` adds it to that one.
template <class Pool, class Level, class Join>
std::vector<Pool> pooled(std::vector<Pool> singles, Level&& level, Join&& join) {
  std::vector<Pool> pools;
  for (Pool& single : singles) {
    pools.push_back(std::move(single));
    while (pools.size() > 1 && level(pools[pools.size() - 2]) > level(pools.back())) {
      const Pool last = std::move(pools.back());
      pools.pop_back();
      join(pools.back(), last);
    }
  }
  return pools;
}

/// Values that ought to ascend: if one is less than the one before, neighbours are pooled and have
/// the median of their pool, which a wild one cannot move.
std::vector<double> ascending(const std::vector<double>& values);

/// The line through points, half of them may be wrong (Theil-Sen): the median of the slopes of all
/// pairs of different x, raised to `least_slope`, and the median of what is left.
struct RobustLine {
  double slope = 0, start = 0;
  double start_spread = 0;  // 95 % half-width of the start
};
/// Throws std::invalid_argument without points.
RobustLine theil_sen(const std::vector<double>& x, const std::vector<double>& y,
                     double least_slope = -std::numeric_limits<double>::infinity());

}  // namespace moesim
