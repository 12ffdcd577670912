// SPDX-License-Identifier: Apache-2.0
// The paths of the pairs of GPUs between which a plan moves bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/base/types.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Looked up once for all exchanges of a plan. Paths are numbered from 0 by sender, receiver and
/// place among the equal-cost ones of the pair.
class PairPaths {
 public:
  struct Way {
    int place = 0;
    double share = 1;
    Seconds latency;  // the sum over its links
  };
  /// Told of the links of each path, in the order of their numbers.
  using AddRoute =
      std::function<void(GpuId from, GpuId to, int place, std::span<const LinkId> links)>;

  PairPaths(const Plan& plan, const Topology& topology, const AddRoute& add_route);

  /// The number of the first of a pair that moves bytes in this traffic.
  std::size_t first(const GroupTraffic& traffic, GpuId from, GpuId to) const;
  /// Those of a pair, from its first on.
  std::span<const Way> of(std::size_t first) const;

 private:
  struct Pair {
    GpuId to;
    std::size_t first;
  };
  std::vector<std::vector<Pair>> pairs_;  // [sender], by receiver
  std::vector<Way> ways_;
};

/// Counts the pairs of all exchanges that have bytes.
std::int64_t pairs_that_move(const Plan& plan);

}  // namespace moesim
