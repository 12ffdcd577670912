// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/training/copier.h"

namespace moesim {

Copier::Copier(const PlacementContext& context, Broadcast how)
    : context_(context),
      how_(how),
      homes_(contiguous_placement(context.experts, context.gpus, context.ep).table()) {}

LayerDecision Copier::decide(const LayerRoutingNow& now) {
  std::vector<StepCopies> runs;
  for (int first = 0; first < context_.gpus; first += context_.ep) {
    runs.push_back(copies(now, first, run_of(homes_, first, context_.ep)));
  }
  LayerDecision decision = with_copies(context_, homes_, runs, {how_, false});
  decision.after_gate = decision.planned = reacts();
  return decision;
}

}  // namespace moesim
