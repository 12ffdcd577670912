// SPDX-License-Identifier: Apache-2.0
// What it would take for one scenario to be as fast as another.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace moesim {

/// With the resource of the cluster (docs/whatif.md) `factor` times as large the slower one is as
/// fast; further away from 1 it is the faster one, as far as was looked.
struct BreakEven {
  std::string resource;
  double factor = 1;
};

constexpr double farthest_factor = 4;

/// Both planned and simulated at `port` with one resource after the other made larger and smaller,
/// up to farthest_factor times; factors to 2 %. The resources that need to change least come first.
/// Nothing if none would do, and what was found so far once somebody stops it.
std::vector<BreakEven> break_even(const Scenario& faster, const Scenario& slower, int workers,
                                  const std::function<bool()>& stop);

/// The least |log(factor)| at which the sign of `ahead` changes between 1 and `end`, by bisection
/// of the logarithm to `precision`; `ahead` is positive at 1 and not at `end`.
double crossing(const std::function<double(double factor)>& ahead, double end, double precision);

}  // namespace moesim
