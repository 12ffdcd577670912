// SPDX-License-Identifier: Apache-2.0
// Planners whose experts have homes, and copies that last for one step.
#pragma once

#include "sim/mechanism/placement/training/expert_copies.h"

namespace moesim {

/// Homes are contiguous at first. A rank uses its own copy of an expert, else the home. Parameters
/// are gathered and gradients reduced as the options say; homes keep memory for good, copies while
/// the layer computes.
class Copier : public GroupPlanner {
 protected:
  Copier(const PlacementContext& context, const CopyOptions& copies,
         const PlanningOptions& options = {}, Keeps keeps = Keeps::totals);
  StepSlots in_step(const GroupStep& at) override = 0;
  Assignment assign(const GroupStep& at, Placement slots) override;
  void finish(LayerDecision& decision, const SlotTable& homes,
              std::span<const StepSlots> steps) const final;

 private:
  CopyOptions copies_;
};

}  // namespace moesim
