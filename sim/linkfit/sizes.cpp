// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/sizes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace moesim {
namespace {

SizeTimes robust(double bytes, const std::vector<double>& times) {
  const Robust r = robust_median(times);
  return {bytes, r.value, r.kept, r.kept > 1 ? r.spread : -1, r.most / r.least - 1};
}

using Curve = std::map<double, double>;  // bytes to seconds

Curve sound(const std::vector<SizeTimes>& sizes) {
  Curve curve;
  for (const SizeTimes& s : sizes) {
    if (!s.contradicted) curve.emplace(s.bytes, s.seconds);
  }
  return curve;
}

/// Logarithm of the time at `bytes` by another curve; nothing if the curve has no such size or the
/// two have no sound sizes in common on both sides.
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

/// Sizes that only the other curves have, to be filled as contradicted ones are.
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
  for (std::size_t i = at; i-- > at - std::min<std::size_t>(at, 3);) {
    if (sizes[i].bytes >= size.bytes / 2 && !sizes[i].contradicted) {
      smaller.push_back(sizes[i].seconds);
    }
  }
  return (!larger.empty() && size.seconds > (1 + contradiction) * median(larger)) ||
         (!smaller.empty() && median(smaller) > (1 + contradiction) * size.seconds);
}

}  // namespace

std::vector<SizeTimes> ascending(std::vector<SizeTimes> sizes) {
  std::vector<double> seconds;
  for (const SizeTimes& s : sizes) seconds.push_back(s.seconds);
  seconds = ascending(seconds);
  for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i].seconds = seconds[i];
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
