// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/copier.h"

#include <utility>

namespace moesim {

Copier::Copier(const PlacementContext& context, const CopyOptions& copies,
               const PlanningOptions& options, Keeps keeps)
    : GroupPlanner(context, options, contiguous_homes(context), keeps), copies_(copies) {}

Assignment Copier::assign(const GroupStep& at, Placement slots) {
  return own_or_home(at.slots, std::move(slots));
}

void Copier::finish(LayerDecision& decision, const SlotTable& homes,
                    std::span<const StepSlots> steps) const {
  move_copies(decision, context(), homes, steps, copies_);
}

}  // namespace moesim
