// SPDX-License-Identifier: Apache-2.0
#include "sim/trace/synth/random.h"

#include <cmath>
#include <numeric>

namespace moesim {
namespace {

constexpr double ln2_high = 0x1.62e42fee00000p-1;  // ln 2 in two parts: the first times a small
constexpr double ln2_low = 0x1.a39ef35793c76p-33;  // integer is exact

std::uint64_t splitmix(std::uint64_t& x) {
  x += 0x9e3779b97f4a7c15U;
  std::uint64_t z = x;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
  z = (z ^ z >> 27) * 0x94d049bb133111ebU;
  return z ^ z >> 31;
}

std::uint64_t rotate(std::uint64_t x, int k) { return x << k | x >> (64 - k); }

}  // namespace

double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double s = (m - 1) / (m + 1);  // log m = 2 atanh s, |s| < 0.172
  const double s2 = s * s;
  double series = 0;
  for (int n = 23; n >= 1; n -= 2) series = series * s2 + 1.0 / n;
  return exponent * ln2_high + (2 * s * series + exponent * ln2_low);
}

double portable_exp(double x) {
  if (x < -745) return 0;
  if (x > 709) return portable_exp(709);
  const double k = std::floor(x / (ln2_high + ln2_low) + 0.5);
  const double r = (x - k * ln2_high) - k * ln2_low;  // |r| < 0.347
  double series = 1;
  for (int n = 14; n >= 1; --n) series = 1 + series * r / n;
  return std::ldexp(series, static_cast<int>(k));
}

Random::Random(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = seed;
  x = splitmix(x) ^ a;
  x = splitmix(x) ^ b;
  for (auto& word : state_) word = splitmix(x);
}

std::uint64_t Random::next() {
  const std::uint64_t result = rotate(state_[1] * 5, 7) * 9;
  const std::uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate(state_[3], 45);
  return result;
}

std::uint32_t Random::below(std::uint32_t n) {
  std::uint64_t product = (next() >> 32) * n;
  if (static_cast<std::uint32_t>(product) < n) {
    const std::uint32_t threshold = -n % n;
    while (static_cast<std::uint32_t>(product) < threshold) product = (next() >> 32) * n;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

double Random::normal() {
  for (;;) {
    const double u = 2 * uniform() - 1;
    const double v = 2 * uniform() - 1;
    const double s = u * u + v * v;
    if (s > 0 && s < 1) return u * std::sqrt(-2 * portable_log(s) / s);
  }
}

AliasTable::AliasTable(const std::vector<double>& weights) : cells_(weights.size()) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<double> scaled;
  std::vector<int> small, large;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    scaled.push_back(weights[i] * static_cast<double>(weights.size()) / sum);
    cells_[i].alias = static_cast<int>(i);
    (scaled[i] < 1 ? small : large).push_back(static_cast<int>(i));
  }
  while (!small.empty() && !large.empty()) {
    const auto s = static_cast<std::size_t>(small.back());
    const auto l = static_cast<std::size_t>(large.back());
    small.pop_back();
    cells_[s] = {scaled[s], static_cast<int>(l)};
    scaled[l] -= 1 - scaled[s];
    if (scaled[l] < 1) large.pop_back(), small.push_back(static_cast<int>(l));
  }
}

}  // namespace moesim
