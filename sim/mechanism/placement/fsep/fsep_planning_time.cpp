// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "sim/mechanism/placement/fsep/fsep_planner.h"

namespace moesim {
namespace {

// Milliseconds by slots per rank (1, 2, 4, 8, 16) and ranks (64, 128, 256, 512, 1024).
constexpr std::size_t measured_sizes = 5;
constexpr std::array<std::array<double, measured_sizes>, measured_sizes> published = {{
    {0.49, 1.29, 3.59, 24.5, 99.8},
    {0.52, 1.54, 4.45, 28.6, 116},
    {0.75, 2.08, 6.05, 33.6, 131},
    {1.00, 2.94, 9.44, 46.6, 182},
    {1.75, 5.28, 17.4, 76.3, 282},
}};

/// A place between two neighbours of a row of powers of two.
struct Between {
  std::size_t low;
  double part;  // of the way to the next
};

Between between(int value, int first) {
  const double doublings = std::log2(static_cast<double>(value) / first);
  const double place = std::clamp(doublings, 0.0, static_cast<double>(measured_sizes - 1));
  const auto low = std::min(static_cast<std::size_t>(place), measured_sizes - 2);
  return {low, place - static_cast<double>(low)};
}

}  // namespace

Seconds published_planning_time(int ranks, int slots_per_rank) {
  const Between n = between(ranks, 64);
  const Between c = between(slots_per_rank, 1);
  const auto in_row = [&](std::size_t row) {
    return std::lerp(std::log(published[row][n.low]), std::log(published[row][n.low + 1]), n.part);
  };
  return Seconds(1e-3 * std::exp(std::lerp(in_row(c.low), in_row(c.low + 1), c.part)));
}

}  // namespace moesim
