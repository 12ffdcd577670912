// SPDX-License-Identifier: Apache-2.0
// What it would take for one scenario to be as fast as another.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/scenario/scenario.h"

namespace moesim {

/// A resource of the cluster (docs/whatif.md) that is `factor` times as large.
struct ResourceFactor {
  std::string resource;
  double factor = 1;
};

constexpr double farthest_factor = 4;

/// Where the slower one is as fast; further away from a factor of 1 it is the faster one, as far as
/// was looked. Both are planned and simulated at `port` with one resource after the other made
/// larger and smaller, up to farthest_factor times; factors to 2 %. The resources that need to
/// change least come first.
/// Nothing if none would do, and what was found so far once somebody stops it.
std::vector<ResourceFactor> break_even(const Scenario& faster, const Scenario& slower, int workers,
                                       const std::function<bool()>& stop);

/// Where something that is positive at the factor 1 is not at `end`.
struct CrossingEnds {
  double end = 1;
  double ahead_at_one = 0, ahead_at_end = 0;
};
/// A factor up to which `ahead`, which is not positive there, changes its sign within `precision`
/// of the logarithm. By ITP (Oliveira & Takahashi, ACM TOMS 47:1, 2020): never more trials than
/// bisection, and where times are smooth about half.
double crossing(const std::function<double(double factor)>& ahead, const CrossingEnds& ends,
                double precision);

}  // namespace moesim
