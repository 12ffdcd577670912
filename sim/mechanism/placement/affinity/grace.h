// SPDX-License-Identifier: Apache-2.0
// GRACE-MoE (arXiv 2509.25041): experts that go together share a node and a GPU; hot ones of the
// heaviest GPU are copied.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"
#include "sim/plan/assignment.h"
#include "sim/plan/placement.h"

namespace moesim {

/// Bounds on the experts of a group.
struct GroupSizes {
  int least = 0;
  int most = 0;
  bool operator==(const GroupSizes&) const = default;
};

/// floor(experts / groups) -+ max(1, round(ratio x that)), at least one expert; 0.15 is the
/// paper's.
GroupSizes grace_sizes(int experts, int groups, double ratio = 0.15);

using ExpertGroups = std::vector<std::vector<ExpertId>>;

/// Controlled grouping of some experts: spectral clusters; those above `sizes` keep the members
/// with most affinity to them, the others join the group with most affinity to them; groups below
/// take the members with least affinity to their own group from groups above the minimum.
/// Unstated in the paper, ours: a full group takes no one; experts are moved lowest id first.
/// Groups ascend within. Throws Error when no grouping has these sizes.
ExpertGroups controlled_groups(const PairMatrix& affinity, std::span<const ExpertId> experts,
                               int groups, GroupSizes sizes, std::uint64_t seed);

/// Experts onto nodes in groups of any size (a node has an expert for each of its GPUs), then onto
/// the GPUs of a node in controlled groups: one row per GPU.
SlotTable place_grace(const PairMatrix& affinity, int nodes, int gpus_per_node, double ratio = 0.15,
                      std::uint64_t seed = 1);

/// Load that a copy takes over. The paper's W_max / (n_rep + 1) does not add up to the load there
/// is; ours takes the copied experts' load instead.
enum class GraceCopyLoad { conserved, published };

/// The copies of one layer and the loads expected with them.
struct GraceReplicas {
  std::vector<ExpertId> experts;  // copied, by falling load
  std::vector<GpuId> gpus;        // that get a copy of each, by rising load
  std::vector<double> predicted;  // W' per GPU
};

/// Copies the heaviest experts of the heaviest GPU, until their load exceeds W_max n / (n + 1), to
/// the n least loaded GPUs; n = min(max(1, floor(W_max / mean)), GPUs - 1). Ties: lowest id.
/// Unstated in the paper: the expert that crosses the threshold is copied too.
GraceReplicas replicate_grace(std::span<const std::int64_t> loads, const SlotTable& primaries,
                              GraceCopyLoad rule = GraceCopyLoad::conserved);

/// The primaries with the copies in slots behind them.
SlotTable with_replicas(const SlotTable& primaries, const GraceReplicas& replicas);

/// Which holders of an expert a GPU uses: all, or those nearest to it (itself, else its node's,
/// else all).
enum class GraceChoice { weighted, topology_aware };

/// The share of each holder, summing to 1: 1 / W' among those in use; holders without any expected
/// load share by themselves and evenly.
std::vector<double> grace_weights(GpuId source, std::span<const GpuId> holders,
                                  std::span<const double> predicted, int gpus_per_node,
                                  GraceChoice choice);

/// Shares [rank][expert] of these weights. The paper draws at random; ours deals `period` choices
/// out in the smoothest order instead (each time to the slot furthest behind its weight).
std::vector<std::vector<Shares>> grace_shares(const Placement& placement,
                                              std::span<const double> predicted, int gpus_per_node,
                                              GraceChoice choice, int period = 64);

}  // namespace moesim
