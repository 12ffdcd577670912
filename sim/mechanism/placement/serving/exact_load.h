// SPDX-License-Identifier: Apache-2.0
// Planners that run on the GPU after the gate, on the loads of the very batch: MoonEP and UltraEP,
// and FEPLB on the CPU.
// Their plans have the form of LLEP's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/placement/serving/llep.h"

namespace moesim::exact_load {

/// A plan with what every expert's GPUs compute: [expert][gpu]. Its GPUs come in their order, the
/// owner before them if `owner_first`.
llep::Plan plan_from(const std::vector<std::vector<std::int64_t>>& parts, int gpus,
                     bool owner_first);

/// MoonEP (MoonshotAI/MoonEP, the plan of planning.py): every GPU computes as many token-slots as
/// any other; the first GPUs get what does not divide. The most loaded home hands to the roomiest
/// GPU what this one lacks, until nobody is above; a home may hand out more than its surplus and
/// becomes a receiver. Of each hand-over, the largest first, experts with the most token-slots left
/// go first. Token-slots of an expert are dealt to its GPUs in the order of these. Ties: lower GPU,
/// lower expert. Throws Error unless gpus divides the experts.
llep::Plan moon_ep(std::span<const std::int64_t> counts, int gpus);

/// UltraEP (Dots-Infra/UltraEP, placement.cu, as read): limits and what they are.
struct Quota {
  int slots = 2;              // of a GPU for received experts
  std::int64_t least = 1024;  // token-slots worth a replica, if no limit near the mean is met
  double tolerance = 0.01;    // of the mean load, by which the first limit is above it
};

/// The first limit of a GPU's load that a greedy hand-over meets: from the most loaded home on,
/// experts with the most token-slots first, each to the GPU of its domain with the most room that
/// has a slot left and does not hold it yet. A home keeps a token-slot of each of its experts.
/// Three limits near the mean are tried first: the tolerance above it, and then one and two percent
/// of the largest load more. In these a replica is worth as much as every GPU that could take the
/// expert would have of what has to go, evenly. After them the least limit is searched, from the
/// mean on, with replicas of `least` or more. `domain`: so many consecutive GPUs hand over among
/// themselves, each domain with a limit of its own. Ties as above. Throws Error as above.
llep::Plan ultra_ep(std::span<const std::int64_t> counts, int gpus, int domain, const Quota& quota);

/// FEPLB (arXiv 2604.19654), an interpretation: of every home the `dynamic` most loaded experts, or
/// all, may be computed by another GPU of the domain, whole. From the most loaded one on, each goes
/// to the GPU with the least load so far, its home on ties, which the other experts of homes begin
/// with. If nobody's load falls, they stay. Ties and errors as above.
llep::Plan feplb(std::span<const std::int64_t> counts, int gpus, int domain, int dynamic);

}  // namespace moesim::exact_load
