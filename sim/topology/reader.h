// SPDX-License-Identifier: Apache-2.0
// Topology YAML files: the generators and the explicit form. See docs/topologies.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/topology/cluster_limits.h"
#include "sim/topology/connections.h"
#include "sim/topology/gpu_costs.h"
#include "sim/topology/topology.h"

namespace moesim {

struct TopologyFile {
  Topology topology;
  std::vector<Diagnostic> warnings;  // fields without effect and the like
  std::string resolved;              // the file with its overrides, as JSON, for reports
  std::shared_ptr<const Connections> connections = {};  // none if the file states none
  GpuCosts costs = {};                                  // of each GPU
  std::vector<std::string> calibrations = {};           // files that it names
};

/// Reads a topology file with overrides; throws Error with all its mistakes.
TopologyFile read_topology(const std::string& path, const std::vector<Override>& overrides = {},
                           const ClusterLimits& limits = {});

/// The same from text; `name` stands for the file in messages.
TopologyFile parse_topology(const std::string& text, const std::string& name,
                            const std::vector<Override>& overrides = {},
                            const ClusterLimits& limits = {});

}  // namespace moesim
