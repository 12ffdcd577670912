// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/proof.h"

namespace moesim {

std::vector<LayerRouting> routing_of(const StepPlan& planned, const Batch& batch) {
  std::vector<GpuId> source;  // [token]
  for (std::size_t rank = 0; rank < batch.ranks.size(); ++rank) {
    for (const TokenRun& run : batch.ranks[rank]) {
      source.insert(source.end(), static_cast<std::size_t>(run.count),
                    GpuId(static_cast<std::int64_t>(rank)));
    }
  }
  std::vector<LayerRouting> routing;
  for (std::size_t i = 0; i < planned.layers.size(); ++i) {
    const LayerWork& layer = planned.layers[i];
    routing.push_back({layer.number, source, planned.chosen[i], &layer.assignment()});
  }
  return routing;
}

void prove_delivery(const StepPlan& planned, const Batch& batch) {
  check_delivery(planned.plan, routing_of(planned, batch));
}

}  // namespace moesim
