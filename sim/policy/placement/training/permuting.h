// SPDX-License-Identifier: Apache-2.0
// Planners that deal the experts of a run out over its slots anew: every expert keeps one slot.
#pragma once

#include "sim/policy/placement/lagged.h"

namespace moesim {

/// Starts contiguous. An expert that changes its GPU moves within its run, all at once.
class Permuting : public Lagged {
 public:
  Permuting(const PlacementContext& context, const LaggedOptions& options);

 protected:
  /// The slots of all runs before the first decision.
  static SlotTable initial(const PlacementContext& context);

 private:
  Assignment assign(Placement placement, const LayerRoutingNow& now) final;
  ParamExchange migration(const SlotTable& before, const SlotTable& after) const final;
};

}  // namespace moesim
