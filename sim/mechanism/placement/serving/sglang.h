// SPDX-License-Identifier: Apache-2.0
// SGLang's online balancer (eplb_manager.py, expert_location*.py): EPLB on the loads since the last
// rebalance, at intervals, unless GPUs are used evenly enough.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/replica_choice.h"
#include "sim/mechanism/rank_space.h"

namespace moesim::sglang {

/// Mean over largest load of the GPUs; 1 without load.
double utilisation(std::span<const double> gpu_loads);

/// Whether a rebalance follows the given number of passes: every `interval`, unless utilisation is
/// above the threshold (at 1 it never is).
constexpr bool rebalances_after(std::int64_t passes, double utilisation, double threshold = 1,
                                std::int64_t interval = 1000) {
  return passes > 0 && passes % interval == 0 && !(utilisation > threshold);
}

/// The slots of an expert that a rank may use: one on its GPU, else one on its node if other nodes
/// have some, too (the lowest of several), else all. Node: since sgl-project/sglang PR 9849 and
/// 10874, in later versions not if all slots are on it.
std::vector<SlotId> candidates(const Placement& placement, const RankLevel& nodes, ExpertId expert,
                               GpuId rank);

/// `static` dispatch, slots [rank][expert] of one layer: the only candidate, else replicas dealt
/// evenly over the ranks that have several, and shuffled. Upstream shuffles by Python's generator,
/// seed 42, one stream over the layers; ours has a stream per (seed, layer).
std::vector<std::vector<SlotId>> static_slots(const Placement& placement, const RankLevel& nodes,
                                              int layer, std::uint64_t seed = 42);

/// `dynamic` dispatch: one of the candidates uniformly at random per choice. Upstream draws; ours
/// hashes (seed, source rank, expert, token), so that a choice has the same one in every
/// evaluation.
Shares dynamic_shares(std::span<const Choice> choices, std::span<const SlotId> replicas,
                      GpuId source, ExpertId expert, std::uint64_t seed = 42);

}  // namespace moesim::sglang
