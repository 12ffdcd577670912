// SPDX-License-Identifier: Apache-2.0
// Descriptions that are YAML or JSON.
#pragma once

#include <string>

#include "sim/topology/import/facts.h"

namespace moesim {

/// Slurm's topology.yaml, topograph's models, and a Kubernetes list of nodes. Throws Error for
/// other YAML.
ClusterFacts yaml_facts(const std::string& text, const std::string& name);

}  // namespace moesim
