// SPDX-License-Identifier: Apache-2.0
// Predicted time of a d-dimensional AlltoAll and the best d: the cost model of HierMoE
// (arXiv 2508.09591). docs/hiermoe.md explains it.
#pragma once

#include <span>
#include <vector>

#include "sim/model/collective_cost.h"

namespace moesim {

/// Send buffer of one rank in token rows, for every stage that any d may use; entry i-1 belongs to
/// level i. In the paper's symbols: n / (M v). Fractions come from means.
struct StageRows {
  double flat = 0;
  std::vector<double> inter;
  std::vector<double> intra;
};

/// t_d for d = 1..D, at [d-1]: flat for d = 1, else Inter-level-1 .. Inter-level-(d-1) and
/// Intra-level-(d-1), one after the other. Throws std::logic_error when the levels differ.
std::vector<Seconds> depth_times(const CollectiveCosts& costs, const StageRows& rows, Bytes row);

/// d* by the published rule: 1 if t_1 is less than every other t_d, else the fastest d > 1, of
/// equally fast ones the smallest.
int best_depth(std::span<const Seconds> times);

}  // namespace moesim
