// SPDX-License-Identifier: Apache-2.0
// What balancers that replicate experts share: their slots, and what the copies of an expert cost.
// Hosts are their nodes; every EP group is balanced by itself.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/group_planner.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/mechanism/placement/serving/replica_choice.h"

namespace moesim {

/// `given` slots, or when 0 one more than the experts of a rank rounded up; throws Unsuitable
/// when the experts do not fit.
int slots_per_gpu(const PlacementContext& context, int given);

/// What EPLB balances in one EP group: slots as slots_per_gpu says, experts in `groups`, or when 0
/// in those of the gate. One group needs no nodes. Throws Unsuitable when EPLB has no layout.
eplb::Shape eplb_shape(const PlacementContext& context, int slots, int groups);

/// Slot p of an EP group, counted over its ranks, holds expert p modulo experts.
SlotTable slots_in_turn(int experts, int ranks, int slots);

/// The shares of one rank for one expert, from its choices of it in token order (dropped ones left
/// out) and the slots of the expert, ascending.
using ChoiceShares =
    std::function<Shares(GpuId rank, ExpertId expert, std::span<const Choice> choices,
                         std::span<const SlotId> replicas)>;

/// The assignment of an EP group by a rule that picks a replica for every choice.
Assignment assign_by_choice(const GroupStep& at, const Placement& slots,
                            const ChoiceShares& shares);

/// Memory of the slots and, in training, what keeps the copies of an expert alike. `whole`: every
/// slot holds gradients and optimizer state, gradients of the copies in an EP group are summed at
/// its first holder and sent back. Otherwise the rank that `contiguous` gives an expert keeps its
/// optimizer state: it sends weights to every other holder before the experts compute, which makes
/// migration needless, and gets their gradients. No serving system says how it would train: ours.
void hold_slots(LayerDecision& decision, const PlacementContext& context, bool whole);

/// A planner whose slots hold replicas, of only weights or whole experts.
class Serving : public GroupPlanner {
 protected:
  Serving(const PlacementContext& context, const PlanningOptions& options, const SlotTable& initial,
          Keeps keeps = Keeps::totals);
  void finish(LayerDecision& decision, const SlotTable& slots,
              std::span<const StepSlots> steps) const override;
};

}  // namespace moesim
