// SPDX-License-Identifier: Apache-2.0
#include "sim/run/elasticities.h"

#include "sim/run/backends.h"
#include "sim/run/cluster_changes.h"

namespace moesim {
namespace {

/// For rates more is better, for times less.
bool is_rate(const std::string& resource) {
  return resource.ends_with("bandwidth") || resource.ends_with("flops");
}

Seconds time_on(const Plan& plan, const ClusterInput& cluster, const SimulatedAt& at) {
  const auto backend = make_backend(at.fidelity, at.order, cluster);
  return backend->run(PricedPlan(plan, cluster.topology)).makespan;
}

}  // namespace

std::vector<Elasticity> elasticities(const Plan& plan, const ClusterInput& cluster,
                                     const SimulatedAt& at, Seconds before, double factor) {
  std::vector<Elasticity> list;
  for (const std::string& resource : resources_of(cluster.topology)) {
    if (resource == "network.latency") continue;
    ClusterChanges changes;
    scale(changes, cluster.topology, resource, is_rate(resource) ? factor : 1 / factor);
    const ClusterInput better = changed(cluster, changes);
    list.push_back({resource, factor, before, time_on(plan, better, at)});
  }
  return list;
}

}  // namespace moesim
