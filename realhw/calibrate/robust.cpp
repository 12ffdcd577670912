// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/robust.h"

#include <algorithm>
#include <cmath>

#include "sim/calibrate/sizes.h"

namespace moesim {
namespace {

constexpr double normal_of_mad = 1.4826;  // standard deviations per median deviation

}  // namespace

Robust robust_median(std::vector<double> values) {
  const std::size_t count = values.size();
  double middle = median(values);
  if (count >= 3) {
    const double deviation = std::max(median_deviation(values, middle), 0.01 * std::abs(middle));
    std::erase_if(values,
                  [&](double v) { return std::abs(v - middle) > 3.5 * normal_of_mad * deviation; });
    middle = median(values);
  }
  Robust result{middle, 0, static_cast<int>(values.size()),
                static_cast<int>(count - values.size())};
  if (values.size() > 1 && middle != 0) {
    result.spread =
        median_interval(median_deviation(values, middle), values.size()) / std::abs(middle);
  }
  return result;
}

std::vector<double> ascending(const std::vector<double>& values) {
  std::vector<std::vector<double>> pools;
  for (const double value : values) {
    pools.push_back({value});
    while (pools.size() > 1 && median(pools[pools.size() - 2]) > median(pools.back())) {
      const std::vector<double> last = std::move(pools.back());
      pools.pop_back();
      pools.back().insert(pools.back().end(), last.begin(), last.end());
    }
  }
  std::vector<double> result;
  for (const auto& pool : pools) result.insert(result.end(), pool.size(), median(pool));
  return result;
}

RobustLine theil_sen(const std::vector<double>& x, const std::vector<double>& y) {
  std::vector<double> slopes, starts;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i + 1; j < x.size(); ++j) {
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
    }
  }
  const double slope = slopes.empty() ? 0 : median(slopes);
  for (std::size_t i = 0; i < x.size(); ++i) starts.push_back(y[i] - slope * x[i]);
  return {slope, median(starts)};
}

}  // namespace moesim
