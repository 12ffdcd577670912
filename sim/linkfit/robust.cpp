// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/robust.h"

#include <cmath>

namespace moesim {
namespace {

constexpr double normal_of_mad = 1.4826;  // standard deviations per median deviation

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) throw std::invalid_argument("the median of nothing");
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double median_deviation(const std::vector<double>& values, double middle) {
  std::vector<double> distances;
  for (const double v : values) distances.push_back(std::abs(v - middle));
  return median(distances);
}

double median_interval(double deviation, std::size_t count) {
  constexpr double of_median = 1.96 * 1.2533;  // in standard errors of a mean
  return of_median * normal_of_mad * deviation / std::sqrt(static_cast<double>(count));
}

Robust robust_median(std::vector<double> values) {
  const std::size_t count = values.size();
  double middle = median(values);
  if (count >= 3) {
    const double deviation = std::max(median_deviation(values, middle), 0.01 * std::abs(middle));
    std::erase_if(values,
                  [&](double v) { return std::abs(v - middle) > 3.5 * normal_of_mad * deviation; });
    middle = median(values);
  }
  Robust result{.value = middle,
                .kept = static_cast<int>(values.size()),
                .rejected = static_cast<int>(count - values.size())};
  result.least = std::ranges::min(values);
  result.most = std::ranges::max(values);
  if (middle != 0) {
    result.spread =
        median_interval(median_deviation(values, middle), values.size()) / std::abs(middle);
  }
  return result;
}

std::vector<double> ascending(const std::vector<double>& values) {
  std::vector<std::vector<double>> singles;
  for (const double value : values) singles.push_back({value});
  const auto pools = pooled(std::move(singles), median,
                            [](std::vector<double>& before, const std::vector<double>& pool) {
                              before.insert(before.end(), pool.begin(), pool.end());
                            });
  std::vector<double> result;
  for (const auto& pool : pools) result.insert(result.end(), pool.size(), median(pool));
  return result;
}

RobustLine theil_sen(const std::vector<double>& x, const std::vector<double>& y,
                     double least_slope) {
  std::vector<double> slopes, starts;
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = i + 1; j < x.size(); ++j) {
      if (x[i] != x[j]) slopes.push_back((y[j] - y[i]) / (x[j] - x[i]));
    }
  }
  RobustLine line;
  line.slope = std::max(least_slope, slopes.empty() ? 0 : median(slopes));
  for (std::size_t i = 0; i < x.size(); ++i) starts.push_back(y[i] - line.slope * x[i]);
  line.start = median(starts);
  line.start_spread = median_interval(median_deviation(starts, line.start), starts.size());
  return line;
}

}  // namespace moesim
