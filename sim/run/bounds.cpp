// SPDX-License-Identifier: Apache-2.0
#include "sim/run/bounds.h"

#include <memory>

#include "sim/report/lower_bound.h"
#include "sim/run/backends.h"

namespace moesim {

ClusterInput stage_of(const Planner& planner, int stage, const ClusterInput& cluster) {
  const Topology& part = planner.cluster_of(stage);
  const std::vector<GpuId> gpus = planner.gpus_of(stage);
  ClusterInput result{cluster.file,
                      part.of_gpus({part.all_gpus().begin(), part.all_gpus().end()}),
                      {},
                      cluster.gpu_files,
                      cluster.ep,
                      {},
                      0,
                      {}};
  for (const GpuId gpu : gpus) result.gpus.push_back(cluster.gpus[gpu.index()]);
  return result;
}

BoundSums bounds_of(Planner& planner, const PlannedStep& planned, const ClusterInput& cluster,
                    const Scenario& scenario) {
  BoundSums sums;
  PortBytes least;
  std::unique_ptr<ClusterInput> own;  // of the stage at hand, if there are several
  std::unique_ptr<SimulatedBackend> backend;
  int stage = -1;
  for (std::size_t i = 0; i < planned.layers.size(); ++i) {
    const PlannedLayer& work = planned.layers[i];
    if (work.microbatch > 0) continue;
    if (work.stage != stage) {
      stage = work.stage;
      if (planner.shape().grid.stages() > 1) {
        own = std::make_unique<ClusterInput>(stage_of(planner, stage, cluster));
      }
      backend = make_backend(Fidelity::port, scenario.p2p_order, own ? *own : cluster);
    }
    const ClusterInput& on = own ? *own : cluster;
    sums.phases.insert(work.dispatch->shape().size());
    // The step's own plan has no rows: those of all its layers would not fit.
    const PlannedStep layer = planner.layer_with_rows(planned, i);
    const PricedPlan priced(layer.plan, on.topology);
    least.add(least_bytes(layer.plan, on.topology));
    sums.add(explain(priced, on.gpus, {{"port", backend.get()}}), on.topology, planned.plan.name);
  }
  sums.least_between_hosts = Bytes(least.between_hosts);
  sums.dedup = time_at_best_rate(least, cluster.topology);
  return sums;
}

}  // namespace moesim
