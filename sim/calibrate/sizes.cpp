// SPDX-License-Identifier: Apache-2.0
#include "sim/calibrate/sizes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

namespace moesim {
namespace {

constexpr double normal_of_mad = 1.4826;  // standard deviations per median deviation

SizeTimes robust(double bytes, const std::vector<double>& times) {
  double middle = median(times);
  std::vector<double> kept = times;
  if (times.size() >= 3) {
    const double deviation = std::max(median_deviation(times, middle), 0.01 * middle);
    std::erase_if(kept,
                  [&](double t) { return std::abs(t - middle) > 3.5 * normal_of_mad * deviation; });
    middle = median(kept);
  }
  const auto [quickest, slowest] = std::ranges::minmax(kept);
  SizeTimes size{bytes, middle, static_cast<int>(kept.size()), -1, slowest / quickest - 1};
  if (kept.size() > 1) {
    size.spread = median_interval(median_deviation(kept, middle), kept.size()) / middle;
  }
  return size;
}

using Curve = std::map<double, double>;  // bytes to seconds

Curve sound(const std::vector<SizeTimes>& sizes) {
  Curve curve;
  for (const SizeTimes& s : sizes) {
    if (!s.contradicted) curve.emplace(s.bytes, s.seconds);
  }
  return curve;
}

/// Logarithm of the time at `bytes` by a curve beside this one; nothing where the curve has no such
/// size or the two have no sound sizes in common on both sides.
std::optional<double> by_ratio(const Curve& own, const Curve& beside, double bytes) {
  const auto there = beside.find(bytes);
  if (there == beside.end()) return std::nullopt;
  std::optional<std::pair<double, double>> low, high;  // logarithms of size and ratio
  for (const auto& [size, seconds] : own) {
    const auto other = beside.find(size);
    if (other == beside.end() || size == bytes) continue;
    if (size < bytes / 4 || size > 4 * bytes) continue;
    const std::pair point(std::log(size), std::log(seconds / other->second));
    if (size < bytes) low = point;
    if (size > bytes && !high) high = point;
  }
  if (!low || !high) return std::nullopt;
  const double part = (std::log(bytes) - low->first) / (high->first - low->first);
  return std::log(there->second) + low->second + part * (high->second - low->second);
}

/// The geometric mean of what the curves say.
std::optional<double> by_ratios(const Curve& own, const std::vector<Curve>& beside, double bytes) {
  double sum = 0;
  int count = 0;
  for (const Curve& curve : beside) {
    if (const auto time = by_ratio(own, curve, bytes)) {
      sum += *time;
      ++count;
    }
  }
  if (count == 0) return std::nullopt;
  return std::exp(sum / count);
}

/// Sizes that only the curves beside have, to be filled as contradicted ones are.
void add_missing(std::vector<SizeTimes>& sizes, const std::vector<Curve>& beside) {
  const double least = sizes.front().bytes;
  const double most = sizes.back().bytes;
  for (const Curve& curve : beside) {
    for (const auto& [bytes, seconds] : curve) {
      if (std::ranges::count(sizes, bytes, &SizeTimes::bytes) > 0) continue;
      if (bytes > least && bytes < most) {
        SizeTimes size;
        size.bytes = bytes;
        size.contradicted = true;
        sizes.push_back(size);
      }
    }
  }
  std::ranges::sort(sizes, {}, &SizeTimes::bytes);
}

/// By those of the three next sizes, up to twice as large or down to half, whose own times agree.
bool contradicted_by_others(const std::vector<SizeTimes>& sizes, std::size_t at) {
  const SizeTimes& size = sizes[at];
  std::vector<double> larger, smaller;
  for (std::size_t i = at + 1; i < std::min(sizes.size(), at + 4); ++i) {
    if (sizes[i].bytes <= 2 * size.bytes && !sizes[i].contradicted) {
      larger.push_back(sizes[i].seconds);
    }
  }
  for (std::size_t i = at; i-- > (at < 3 ? 0 : at - 3);) {
    if (sizes[i].bytes >= size.bytes / 2 && !sizes[i].contradicted) {
      smaller.push_back(sizes[i].seconds);
    }
  }
  return (!larger.empty() && size.seconds > (1 + contradiction) * median(larger)) ||
         (!smaller.empty() && median(smaller) > (1 + contradiction) * size.seconds);
}

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

std::vector<SizeTimes> ascending(std::vector<SizeTimes> sizes) {
  std::vector<std::vector<double>> pools;
  for (const SizeTimes& s : sizes) {
    pools.push_back({s.seconds});
    while (pools.size() > 1 && median(pools[pools.size() - 2]) > median(pools.back())) {
      std::vector<double> last = std::move(pools.back());
      pools.pop_back();
      pools.back().insert(pools.back().end(), last.begin(), last.end());
    }
  }
  std::size_t i = 0;
  for (const std::vector<double>& pool : pools) {
    for (std::size_t k = 0; k < pool.size(); ++k) sizes[i++].seconds = median(pool);
  }
  return sizes;
}

std::vector<SizeTimes> sizes_of(const std::vector<Sample>& samples) {
  std::map<std::int64_t, std::vector<double>> times;
  for (const Sample& s : samples) times[s.bytes.value].push_back(s.time.value);
  std::vector<SizeTimes> sizes;
  for (const auto& [bytes, list] : times) {
    sizes.push_back(robust(static_cast<double>(bytes), list));
    sizes.back().contradicted = sizes.back().apart > contradiction;
  }
  std::vector<bool> wild;
  for (std::size_t i = 0; i < sizes.size(); ++i) wild.push_back(contradicted_by_others(sizes, i));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    sizes[i].contradicted = sizes[i].contradicted || wild[i];
  }
  return sizes;
}

std::vector<SizeTimes> settled(std::vector<SizeTimes> sizes,
                               const std::vector<std::vector<Sample>>& beside) {
  if (sizes.empty()) return sizes;
  std::vector<Curve> curves;
  for (const std::vector<Sample>& samples : beside) curves.push_back(sound(sizes_of(samples)));
  const Curve own = sound(sizes);
  add_missing(sizes, curves);
  std::vector<SizeTimes> result;
  for (SizeTimes& s : sizes) {
    if (s.contradicted) {
      const auto filled = by_ratios(own, curves, s.bytes);
      if (!filled) continue;
      s.seconds = *filled;
      s.samples = 0;
    }
    result.push_back(s);
  }
  return result;
}

}  // namespace moesim
