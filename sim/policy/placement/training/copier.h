// SPDX-License-Identifier: Apache-2.0
// Planners whose experts have contiguous homes, and copies that last for one step.
#pragma once

#include "sim/policy/placement/training/expert_copies.h"

namespace moesim {

/// Asks for every run's copies in every step. What is copied depends on the step's gate where the
/// planner reacts.
class Copier : public Placer {
 public:
  Copier(const PlacementContext& context, Broadcast how);
  LayerDecision decide(const LayerRoutingNow& now) override;

 protected:
  /// The copies of the run that starts at rank `first`, whose experts have these homes.
  virtual StepCopies copies(const LayerRoutingNow& now, int first, SlotTable homes) = 0;
  const PlacementContext& context() const { return context_; }

 private:
  PlacementContext context_;
  Broadcast how_;
  SlotTable homes_;  // of all runs
};

}  // namespace moesim
