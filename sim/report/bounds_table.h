// SPDX-License-Identifier: Apache-2.0
// Token exchanges by themselves against the least that any dispatch needs, one line per policy.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/explain.h"

namespace moesim {

/// Sums over the layers and token movements of one step.
struct BoundSums {
  Seconds alone, bound;
  double least_ratio = 0;  // time of a movement / its bound; 0: no movement has a bound
  Bytes between_hosts;
  std::vector<std::int64_t> classes;  // bytes per link class
  std::set<int> phases;
  Bytes least_between_hosts;  // see least_bytes
  Seconds dedup;              // see time_at_best_rate

  /// Adds a layer of `plan` that was explained at one fidelity. Throws std::logic_error when a
  /// movement beats its bound: then the simulator or the bound is wrong.
  void add(const Explanation& layer, const Topology& topology, const std::string& plan);
};

struct PolicyBounds {
  const Topology* topology = nullptr;  // must outlive it
  std::string policy;
  BoundSums sums;
};

/// Phases, time of only the token exchanges, the sum of their lower bounds, the movement nearest to
/// its own, bytes between hosts and the least, perfect deduplication, and bytes per link class.
Table bounds_table(const std::vector<PolicyBounds>& policies);

}  // namespace moesim
