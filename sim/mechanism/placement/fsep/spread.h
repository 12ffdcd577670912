// SPDX-License-Identifier: Apache-2.0
// Lite routing: how the choices of a rank for an expert spread over its slots, and what they add up
// to.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/mechanism/loads.h"
#include "sim/mechanism/placement/fsep/slot_grid.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

/// The slots that serve a rank's choices: those on the rank's node, or all when it has none
/// (LAER-MoE's lite routing). Refers to the placement, which must live as long.
class Reach {
 public:
  /// Throws Error unless `ranks_per_node` divides the placement's ranks.
  Reach(const Placement& placement, int ranks_per_node);

  const Placement& placement() const { return placement_; }
  int ranks_per_node() const { return ranks_per_node_; }
  int nodes() const { return nodes_; }
  /// Whether the node has a slot of the expert.
  bool local(int node, ExpertId expert) const { return run(node, expert).size > 0; }
  /// The slots in reach of the node's ranks, ascending, at least one.
  std::span<const SlotId> slots(int node, ExpertId expert) const {
    const std::span<const SlotId> all = placement_.slots_of(expert);
    const Run& r = run(node, expert);
    return r.size > 0 ? all.subspan(r.first, r.size) : all;
  }

 private:
  struct Run {
    std::uint32_t first = 0;
    std::uint32_t size = 0;
  };
  const Run& run(int node, ExpertId expert) const {
    return runs_[expert.index() * static_cast<std::size_t>(nodes_) +
                 static_cast<std::size_t>(node)];
  }
  const Placement& placement_;
  int ranks_per_node_;
  int nodes_;
  std::vector<Run> runs_;  // [expert][node]: the node's part of the expert's slots
};

/// Token-slots by how far they travel.
template <class Count>
struct ByDistance {
  Count same_rank{};
  Count same_node{};  // another rank of the node
  Count other_node{};
  Count total() const { return same_rank + same_node + other_node; }
};

/// What all sources send to every slot. t choices over w slots are floor(t/w) each and one more for
/// each of the first t mod w; LAER-MoE's planner instead counts t/w for each, and still one more
/// for the first t mod w: `planner_extra` is what that adds.
struct Spread {
  std::vector<std::int64_t> slots;  // token-slots received
  ByDistance<std::int64_t> distance;
  std::vector<double> slots_planner_extra;
  ByDistance<double> distance_planner_extra;
};

/// Throws Error when loads and placement differ in ranks or experts.
void check_shapes(const LoadMatrix& loads, const Placement& placement);

/// Sums lite routing of the loads over all sources in O(N*E + slots), without a table of sources,
/// experts and destinations. Throws Error as check_shapes.
Spread spread(const LoadMatrix& loads, const Reach& reach);

/// Sums per rank of a count per slot.
template <class Count>
std::vector<Count> per_rank(const Placement& placement, const std::vector<Count>& slots) {
  std::vector<Count> sums(static_cast<std::size_t>(placement.gpus()));
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    sums[placement.gpu_of(SlotId(static_cast<std::int64_t>(slot))).index()] += slots[slot];
  }
  return sums;
}

}  // namespace moesim::fsep
