// SPDX-License-Identifier: Apache-2.0
// What if: a cluster with faster or slower resources, stragglers, failed links and GPUs.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "sim/model/gpu_changes.h"
#include "sim/scenario/inputs.h"
#include "sim/topology/topology_changes.h"

namespace moesim {

/// As the command line says them; docs/whatif.md lists resources and targets.
struct WhatIf {
  std::vector<std::string> scale = {};  // RESOURCE=FACTOR: "nic.bandwidth=1.5"
  std::vector<std::string> slow = {};   // TARGET=FACTOR: "gpu:7=0.8", of its speed
  std::vector<std::string> fail = {};   // TARGET: "link:node0.nic0--leaf0"

  bool any() const { return !(scale.empty() && slow.empty() && fail.empty()); }
};

/// WhatIf, resolved for one cluster.
struct ClusterChanges {
  TopologyChanges topology;
  GpuFactors gpus;                    // of all GPUs
  std::map<GpuId, double> slow = {};  // further speed factors of single GPUs
  std::set<GpuId> failed = {};

  bool operator==(const ClusterChanges&) const = default;
};

/// Resources of a cluster that a factor can change: "gpu.flops", "nic.bandwidth", ...
std::vector<std::string> resources_of(const Topology& topology);

/// Makes one resource `factor` times as large. Throws Error if the cluster lacks it.
void scale(ClusterChanges& changes, const Topology& topology, const std::string& resource,
           double factor);

/// Throws Error for what the cluster does not have, with what was probably meant.
ClusterChanges changes_of(const WhatIf& what, const Topology& topology);

/// The changed cluster; its batches are empty until fit_trace fills them. Throws Error when two
/// GPUs cannot reach each other any more, or none is left.
ClusterInput changed(const ClusterInput& cluster, const ClusterChanges& changes);

}  // namespace moesim
