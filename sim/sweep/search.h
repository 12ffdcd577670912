// SPDX-License-Identifier: Apache-2.0
// Finds the fastest of many candidates with few exact simulations, from a rough time of each.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace moesim {

struct SearchCandidate {
  double rough = 0;       // seconds; NaN: cannot be
  std::string mechanism;  // candidates of one are off alike
  double least = 0;       // seconds that its exact time is not below
};

struct SearchOptions {
  std::int64_t most = 0;  // exact simulations
  std::int64_t batch = 1;
  double sure = 0.98;       // is enough, with
  std::int64_t ranked = 0;  // so many exact times, for who asks what comes next
  std::function<bool()> stop = [] { return false; };
};

struct SearchEnd {
  std::vector<double> exact;  // [candidate]; NaN: not simulated, or cannot be
  std::int64_t runs = 0;
  std::int64_t beaten = 0;  // without an exact time, and not below the fastest for certain
  /// That no candidate without an exact time is faster than the fastest of the others.
  double sure = 0;
};

/// Seconds of each chosen candidate: NaN of what cannot be, nothing of what was not simulated.
using ExactTimes =
    std::function<std::vector<std::optional<double>>(const std::vector<std::size_t>& chosen)>;

/// log(exact / rough) of a candidate is taken as normal: its mean that of the mechanism's simulated
/// ones, drawn to the mean of all; its variance that of what is left, pooled, with a prior of 10 %
/// that counts as two of them; below its least time it cannot be. First comes the best of every
/// mechanism by rough time, then always whoever is most likely to beat the best so far.
SearchEnd search(const std::vector<SearchCandidate>& candidates, const ExactTimes& exact,
                 const SearchOptions& options);

}  // namespace moesim
