// SPDX-License-Identifier: Apache-2.0
// Random numbers that are the same on every machine: own generator, own samplers, own logarithm
// (the standard distributions and the last bits of std::log differ among libraries).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace moesim {

/// Natural logarithm of a positive normal number and exponential, only from IEEE operations; right
/// to about 1e-15 relative.
double portable_log(double x);
double portable_exp(double x);
/// x^y for x > 0.
inline double portable_pow(double x, double y) { return portable_exp(y * portable_log(x)); }

/// xoshiro256** (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021),
/// seeded by splitmix64.
class Random {
 public:
  /// Streams with the same seed and different (a, b) are independent.
  explicit Random(std::uint64_t seed, std::uint64_t a = 0, std::uint64_t b = 0);

  std::uint64_t next();
  /// In [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, n), unbiased (Lemire).
  std::uint32_t below(std::uint32_t n);
  /// Standard normal (Marsaglia's polar method).
  double normal();

 private:
  std::array<std::uint64_t, 4> state_;
};

/// Draws an index with probability proportional to its weight in constant time (Walker, Vose).
class AliasTable {
 public:
  AliasTable() = default;
  /// Weights >= 0 with a positive sum.
  explicit AliasTable(const std::vector<double>& weights);
  int draw(Random& random) const {
    const std::uint32_t i = random.below(static_cast<std::uint32_t>(cells_.size()));
    const Cell& cell = cells_[i];
    return random.uniform() < cell.keep ? static_cast<int>(i) : cell.alias;
  }

 private:
  struct Cell {
    double keep = 1;
    int alias = 0;
  };
  std::vector<Cell> cells_;
};

}  // namespace moesim
