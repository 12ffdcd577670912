// SPDX-License-Identifier: Apache-2.0
// Planners that deal the experts of an EP group out over its slots anew: every expert keeps one
// slot.
#pragma once

#include "sim/mechanism/placement/group_planner.h"

namespace moesim {

/// Starts contiguous. An expert that changes its rank moves within its EP group, all at once.
class Permuting : public GroupPlanner {
 public:
  Permuting(const PlacementContext& context, const PlanningOptions& options);

 private:
  void move(LayerDecision& decision, const SlotTable& before, const SlotTable& after) const final;
};

}  // namespace moesim
