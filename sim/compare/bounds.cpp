// SPDX-License-Identifier: Apache-2.0
#include "sim/compare/bounds.h"

#include <fmt/format.h>

#include "sim/compare/backends.h"
#include "sim/compare/workers.h"
#include "sim/policy/unsuitable.h"

namespace moesim {
namespace {

BoundSums bounds_of(const Scenario& scenario, const Inputs& inputs, const ClusterInput& cluster,
                    const SystemSpec& system, const JobProgress& progress) {
  BoundSums sums;
  const auto backend = make_backend(Fidelity::port, scenario.p2p_order, cluster);
  int done = 0;
  for (const int layer : inputs.layers) {
    PlannerOptions options = inputs.planner_options(scenario, cluster);
    options.layers = {layer};
    options.explicit_rows = true;
    StepPlanner planner(system, cluster.topology, inputs.model, inputs.trace, options);
    const StepPlan planned = planner.plan(cluster.batches.batches[0], cluster.first_step);
    sums.phases.insert(planned.layers[0].dispatch->shape().size());
    sums.add(explain(planned.plan, cluster.topology, cluster.gpus, {{"port", backend.get()}}),
             cluster.topology, system.name);
    progress(++done, static_cast<int>(inputs.layers.size()));
  }
  return sums;
}

}  // namespace

std::vector<PolicyBounds> bounds(const Scenario& scenario, const Inputs& inputs, int workers) {
  std::vector<WorkerJob<std::optional<BoundSums>>> jobs;
  std::vector<PolicyBounds> policies;
  for (const ClusterInput& cluster : inputs.clusters) {
    if (!cluster.unsuitable.empty()) continue;  // the comparison tells why
    for (const SystemSpec& system : inputs.systems) {
      policies.push_back({&cluster.topology, system.name, {}});
      jobs.push_back({fmt::format("{} {} bounds", cluster.topology.name(), system.name),
                      [&scenario, &inputs, &cluster,
                       &system](const JobProgress& progress) -> std::optional<BoundSums> {
                        try {
                          return bounds_of(scenario, inputs, cluster, system, progress);
                        } catch (const Unsuitable&) {
                          return std::nullopt;  // the comparison tells why
                        }
                      }});
    }
  }
  std::vector<PolicyBounds> found;
  std::size_t at = 0;
  for (auto& sums : run_jobs(jobs, workers)) {
    PolicyBounds& of = policies[at++];
    if (!sums) continue;
    of.sums = std::move(*sums);
    found.push_back(std::move(of));
  }
  return found;
}

}  // namespace moesim
