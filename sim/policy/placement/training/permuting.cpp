// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/training/permuting.h"

#include "sim/policy/placement/training/expert_copies.h"

namespace moesim {

Permuting::Permuting(const PlacementContext& context, const LaggedOptions& options)
    : Lagged(context, options, initial(context)) {}

SlotTable Permuting::initial(const PlacementContext& context) {
  return contiguous_placement(context.experts, context.gpus, context.ep).table();
}

Assignment Permuting::assign(Placement placement, const LayerRoutingNow&) {
  return Assignment(placement, context().ep);
}

ParamExchange Permuting::migration(const SlotTable& before, const SlotTable& after) const {
  std::vector<ExpertTransfer> moves;
  for (int first = 0; first < context().gpus; first += context().ep) {
    const auto from = owners_of(run_of(before, first, context().ep));
    const auto to = owners_of(run_of(after, first, context().ep));
    for (std::size_t e = 0; e < from.size(); ++e) {
      if (from[e] == to[e]) continue;
      moves.push_back({ExpertId(static_cast<std::int64_t>(e)), GpuId(from[e].value + first),
                       GpuId(to[e].value + first), payload()});
    }
  }
  return {"migrate", off_gpu_traffic(moves, context().gpus), {}, {}};
}

}  // namespace moesim
