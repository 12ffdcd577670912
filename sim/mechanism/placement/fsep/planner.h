// SPDX-License-Identifier: Apache-2.0
// LAER-MoE's planner: replica counts, placement, cost, and the cheapest candidate.
#pragma once

#include <string>
#include <vector>

#include "sim/mechanism/placement/fsep/cost.h"
#include "sim/mechanism/placement/fsep/place.h"
#include "sim/mechanism/placement/fsep/replicas.h"

namespace moesim::fsep {

/// Which candidates the planner weighs, and how.
struct PlannerOptions {
  CostParameters cost;
  bool even = true;   // false: LAER's ablation `no_even`
  bool queue = true;  // false: LAER's ablation `no_pq`
  Links links;        // empty: the three bandwidths of `cost`
};

/// One set of replica counts, placed and costed.
struct Candidate {
  std::string name;  // "even" or "pq"
  Replicas replicas;
  Placed placed;
  Cost cost;
};

/// All candidates in the order of evaluation.
struct Decision {
  std::vector<Candidate> candidates;
  std::size_t chosen = 0;
  const Candidate& choice() const { return candidates[chosen]; }
};

/// The cheapest candidate, the first of equals (arXiv 2602.11686, as released): even copies if E
/// divides N*C, then copies by priority queue. A pure function of the counts, which LAER-MoE sums
/// over the last five micro-batches. Throws Error when the options leave no candidate.
Decision plan(const LoadMatrix& loads, const SlotGrid& grid, const PlannerOptions& options = {});

}  // namespace moesim::fsep
