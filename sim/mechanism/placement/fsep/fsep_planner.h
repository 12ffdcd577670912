// SPDX-License-Identifier: Apache-2.0
// What decides the slots of FSEP: LAER-MoE's planner, and the planners that its authors compare it
// with.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/mechanism/placement/fsep/planner.h"
#include "sim/mechanism/placer.h"

namespace moesim {

enum class FsepPlanning {
  laer,     // fsep::plan
  even,     // static: equal copies spread over nodes, blind to loads
  initial,  // static: (rank * C + slot) mod E
  fsdp_ep,  // fsep::fsdp_ep_slots once the first step is over
  flex,     // fsep::flex_plan
  smart,    // fsep::smart_slots
};

/// Names as they appear in YAML, in the order of FsepPlanning.
inline const std::vector<std::string> fsep_planning_names = {"laer",    "even", "initial",
                                                             "fsdp-ep", "flex", "smart"};

/// How `laer` weighs placements, see fsep::PlannerOptions; and the steps of `flex`.
struct FsepPlannerOptions {
  FsepPlanning planning = FsepPlanning::laer;
  bool even = true;
  bool queue = true;
  bool cluster_bandwidths = false;  // instead of those of LAER-MoE's cluster
  bool checkpointing = true;
  Seconds per_token_slot = fsep::CostParameters{}.per_token_slot;
  int flex_steps = 10;
};

/// Plans one EP group from loads, current slots and nothing else.
class FsepPlanner {
 public:
  /// With no `slots` per rank a quarter of the experts, as LAER-MoE has 2 for 8 and 4 for 16, or
  /// the next number that holds all experts and suits the planning. Throws Unsuitable if the given
  /// ones do not.
  FsepPlanner(const PlacementContext& context, const FsepPlannerOptions& options,
              std::optional<int> slots);
  const fsep::SlotGrid& grid() const { return grid_; }
  /// The slots of the first step.
  SlotTable first() const;
  /// Whether there are ever others.
  bool replans() const;
  /// As Placer::forced: the slots leave each expert the least number of replicas that it may have.
  std::string forced() const;
  /// Slots for the loads [ranks x experts] of an EP group.
  SlotTable replan(int group, const LoadMatrix& loads, const SlotTable& current) const;

 private:
  bool suits(int slots) const;
  fsep::Links links(int group) const;

  EpGroups groups_;
  FsepPlannerOptions options_;
  fsep::CostParameters cost_;
  int experts_;
  fsep::SlotGrid grid_;
};

/// Seconds that LAER-MoE's planner takes for one layer: its artifact's figures for 32 experts on
/// 64 to 1024 ranks with 1 to 16 slots (arXiv 2602.11686; CPU unstated), geometrically in between
/// and those of the nearest edge outside.
Seconds published_planning_time(int ranks, int slots_per_rank);

}  // namespace moesim
