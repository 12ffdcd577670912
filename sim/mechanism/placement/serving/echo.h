// SPDX-License-Identifier: Apache-2.0
// ECHO, elastic cloning of hot experts (NVIDIA/Megatron-LM PR 2368 at a2b16b87,
// offloading_planner.py): token-slots above the mean go, with their expert, to spare slots of other
// GPUs, for one step.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/llep.h"

namespace moesim::echo {

/// Token-slots of loads above a mean, and below it.
struct Uneven {
  std::vector<double> surplus;     // [gpu]
  std::vector<double> of_experts;  // [expert] its part of the surplus: most loaded ones give first
  std::vector<double> room;        // [gpu]
};
/// Experts are at their homes, equally many on each GPU.
Uneven uneven(std::span<const std::int64_t> counts, int gpus, double mean);

/// What leaves its home: of every GPU above the mean (rounded down) the surplus, from its most
/// loaded experts. GPUs below it have room up to the mean, and `slots` spare slots.
///  - With one slot, GPUs take one expert each, those with the most room first: approximate bin
///    packing. Experts are in 8 buckets by what they have to give: the mean or more, then by
///    sevenths of it. A GPU takes from the first expert of the fullest bucket, whose rest goes to
///    the end of its new bucket.
///  - With more, surpluses and rooms, both in descending order, are laid side by side, and a GPU
///    takes the largest of its overlaps; the others stay at home.
/// Ties: lower expert, lower GPU. Chunks are in the order of GPUs. Throws Error unless gpus divides
/// the experts.
llep::Plan plan(std::span<const std::int64_t> counts, int gpus, int slots);

/// The same by LoongForge's planner (baidu-baige/LoongForge, offloading_planner.py,
/// gen_assignment_sinkhorn), which prefers clones on the host of the home. The mean is not rounded,
/// and token-slots of a clone are rounded down at the end.
///  - First Sinkhorn and Knopp's iteration spreads the surplus of GPUs over the rooms of others,
///    whose cost is 1 on a host and `host_cost` between hosts.
///  - Then, slot by slot: every GPU with room names the expert of the highest score among those it
///    has no clone of, and every named expert goes to the GPU that scores highest. So often as
///    there are GPUs, each of which takes one. The score is what would go there, plus so many times
///    the mean load of an expert: 1 on the home's host, 1 / host_cost elsewhere, and a tenth of
///    what the first step spread over this pair, by the home's surplus.
/// `hosts`: of every GPU. Ties and errors as above.
llep::Plan plan_by_hosts(std::span<const std::int64_t> counts, std::span<const int> hosts,
                         int slots, double host_cost);

/// What homes keep, next to `clones` [expert][gpu], as a plan.
llep::Plan plan_of_clones(std::span<const std::int64_t> counts, int gpus,
                          std::vector<std::vector<std::int64_t>> clones);

/// Shares [rank][expert] for Placement(experts, llep::table(plan)). A clone gets from every rank
/// its part of the expert's token-slots, rounded down, and what is missing from the lowest ranks.
/// Of a rank's own token-slots the first ones go to clones.
std::vector<std::vector<Shares>> shares(const llep::Plan& plan, const LoadMatrix& loads);

}  // namespace moesim::echo
