// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/placement/hybrid/hybridep_levels.h"

#include "sim/policy/hierarchy.h"

namespace moesim {
namespace {

/// Whether some host's ranks of one run lie in different groups of a level.
bool splits_hosts(const Topology& topology, const Hierarchy& hierarchy, int level, int ep) {
  for (int g = 1; g < topology.gpu_count(); ++g) {
    const GpuId before(g - 1), gpu(g);
    if (g % ep != 0 && topology.host_of(before) == topology.host_of(gpu) &&
        hierarchy.group_of(level, before) != hierarchy.group_of(level, gpu)) {
      return true;
    }
  }
  return false;
}

}  // namespace

DomainLevels read_domain_levels(const YamlMap& params) {
  return static_cast<DomainLevels>(params.choice("levels", {"cluster", "flat"}, 0));
}

std::vector<int> domain_workers(const Topology& topology, int ep, DomainLevels levels) {
  const Hierarchy hierarchy(topology, ep);
  if (levels == DomainLevels::flat || !hierarchy.uniform()) return {ep};
  std::vector<int> workers;
  int groups = 1;
  for (int level = 1; level < hierarchy.depth(); ++level) {
    if (splits_hosts(topology, hierarchy, level, ep)) break;
    workers.push_back(hierarchy.groups_per_run(level) / groups);
    groups = hierarchy.groups_per_run(level);
  }
  workers.push_back(ep / groups);
  return workers;
}

}  // namespace moesim
