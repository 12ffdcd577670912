// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/proof.h"

#include "sim/plan/delivery.h"

namespace moesim {

void prove_delivery(const StepPlan& planned, const Batch& batch, const RoutingTrace& trace,
                    const std::vector<int>& layers) {
  std::vector<LayerRouting> routing;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerRouting layer{planned.layers[i].number, {}, {}, &planned.layers[i].assignment};
    const IdRows ids = trace.step(batch.step).ids(layers[i]);
    for (std::size_t rank = 0; rank < batch.ranks.size(); ++rank) {
      for (const TokenRun& run : batch.ranks[rank]) {
        for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
          layer.source.emplace_back(static_cast<std::int64_t>(rank));
          auto& chosen = layer.chosen.emplace_back();
          for (int k = 0; k < ids.top_k(); ++k) chosen.emplace_back(ids.at(t, k));
        }
      }
    }
    routing.push_back(std::move(layer));
  }
  check_delivery(planned.plan, routing);
}

}  // namespace moesim
