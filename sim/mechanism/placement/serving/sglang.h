// SPDX-License-Identifier: Apache-2.0
// SGLang's online balancer (eplb_manager.py, expert_location*.py): EPLB on the loads since the last
// rebalance, at intervals, unless GPUs are used evenly enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim::sglang {

/// Mean over largest load of the GPUs; 1 without load.
double utilisation(std::span<const double> gpu_loads);

/// Whether a rebalance follows the given number of passes: every `interval`, unless utilisation is
/// above the threshold (at 1 it never is).
constexpr bool rebalances_after(std::int64_t passes, double utilisation, double threshold = 1,
                                std::int64_t interval = 1000) {
  return passes > 0 && passes % interval == 0 && !(utilisation > threshold);
}

/// `static` dispatch, slots [rank][expert] of one layer: the rank's own copy (the lowest slot of
/// several), else replicas dealt evenly over the ranks without one and shuffled. Upstream shuffles
/// by Python's generator, seed 42, one stream over the layers; ours has a stream per (seed, layer).
std::vector<std::vector<SlotId>> static_slots(const Placement& placement, int layer,
                                              std::uint64_t seed = 42);

/// `dynamic` dispatch: a replica uniformly at random per choice. Upstream draws; ours hashes (seed,
/// source rank, expert, token), so that a choice has the same replica in every evaluation.
Shares dynamic_shares(std::span<const Choice> choices, std::span<const SlotId> replicas,
                      GpuId source, ExpertId expert, std::uint64_t seed = 42);

}  // namespace moesim::sglang
