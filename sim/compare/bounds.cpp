// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/bounds.h"

#include "sim/report/perfect_dedup.h"

namespace moesim {

BoundSums bounds_of(StepPlanner& planner, const StepPlan& planned, const Batch& batch,
                    const ClusterInput& cluster, SimulatedBackend& backend) {
  BoundSums sums;
  PortBytes least;
  for (std::size_t i = 0; i < planned.layers.size(); ++i) {
    sums.phases.insert(planned.layers[i].dispatch->shape().size());
    // The step's own plan has no rows: those of all its layers would not fit.
    const StepPlan layer = planner.layer_with_rows(planned, batch, i);
    const PricedPlan priced(layer.plan, cluster.topology);
    least.add(least_bytes(layer.plan, cluster.topology));
    sums.add(explain(priced, cluster.gpus, {{"port", &backend}}), cluster.topology,
             planned.plan.name);
  }
  sums.least_between_hosts = Bytes(least.between_hosts);
  sums.dedup = time_at_full_rate(least, cluster.topology);
  return sums;
}

}  // namespace moesim
