// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/error_bars.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moesim {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double sum_of_squares(const std::vector<double>& values, double middle) {
  double sum = 0;
  for (const double v : values) sum += (v - middle) * (v - middle);
  return sum;
}

std::vector<double> numbers(const std::vector<Seconds>& steps) {
  std::vector<double> values;
  for (const Seconds s : steps) values.push_back(s.value);
  return values;
}

/// Half of the 90 % interval for the mean of n other values. A bootstrap gives the same, except for
/// the larger quantile of few values.
double half_interval(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  const double variance = sum_of_squares(values, mean(values)) / (n - 1);
  return student_95(static_cast<int>(values.size()) - 1) *
         std::sqrt(variance * stretch_of_variance(values) * 2 / n);
}

}  // namespace

double student_95(int degrees_of_freedom) {
  constexpr double exact[] = {6.3138, 2.9200, 2.3534, 2.1318};
  if (degrees_of_freedom <= 4) return exact[std::max(1, degrees_of_freedom) - 1];
  // Cornish-Fisher expansion around the normal quantile; within 1e-3 from 5 degrees on.
  constexpr double z = 1.6448536;
  const double d = degrees_of_freedom;
  const double z3 = z * z * z, z5 = z3 * z * z, z7 = z5 * z * z;
  return z + (z3 + z) / (4 * d) + (5 * z5 + 16 * z3 + 3 * z) / (96 * d * d) +
         (3 * z7 + 19 * z5 + 17 * z3 - 15 * z) / (384 * d * d * d);
}

double stretch_of_variance(const std::vector<double>& values) {
  if (values.size() < 3) return 1;
  const double middle = mean(values), all = sum_of_squares(values, middle);
  if (all <= 0) return 1;
  double neighbours = 0;
  for (std::size_t i = 0; i + 1 < values.size(); ++i) {
    neighbours += (values[i] - middle) * (values[i + 1] - middle);
  }
  // For independent values the correlation is -1/n on average.
  const double r = std::clamp(neighbours / all + 1 / static_cast<double>(values.size()), 0.0, 0.8);
  return (1 + r) / (1 - r);
}

std::optional<Sampled> sampled_mean(const std::vector<Seconds>& steps) {
  if (steps.size() < 2) return std::nullopt;
  const std::vector<double> values = numbers(steps);
  return Sampled{mean(values), half_interval(values)};
}

std::optional<Sampled> sampled_speedup(const std::vector<Seconds>& base,
                                       const std::vector<Seconds>& steps) {
  if (steps.size() < 2 || base.size() != steps.size()) return std::nullopt;
  const std::vector<double> b = numbers(base), s = numbers(steps);
  const double middle = mean(s), ratio = mean(b) / middle;
  std::vector<double> moves;  // by which each step changes the ratio, to the first order
  for (std::size_t i = 0; i < s.size(); ++i) moves.push_back((b[i] - ratio * s[i]) / middle);
  return Sampled{ratio, half_interval(moves)};
}

std::optional<std::int64_t> steps_to_tell(const Sampled& speedup, std::int64_t steps) {
  const double off = std::abs(speedup.value - 1);
  // Closer to 1 than this, the two count as equal.
  constexpr double least = 1e-3;
  if (off < least) return std::nullopt;
  const double part = speedup.half / off;
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(steps) * part * part));
}

}  // namespace moesim
