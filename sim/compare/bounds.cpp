// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/bounds.h"

namespace moesim {

BoundSums bounds_of(StepPlanner& planner, const StepPlan& planned, const Batch& batch,
                    const ClusterInput& cluster, SimulatedBackend& backend) {
  BoundSums sums;
  for (std::size_t i = 0; i < planned.layers.size(); ++i) {
    sums.phases.insert(planned.layers[i].dispatch->shape().size());
    // The step's own plan has no rows: those of all its layers would not fit.
    const StepPlan layer = planner.layer_with_rows(planned, batch, i);
    const PricedPlan priced(layer.plan, cluster.topology);
    sums.add(explain(priced, cluster.gpus, {{"port", &backend}}), cluster.topology,
             planned.plan.name);
  }
  return sums;
}

}  // namespace moesim
