// SPDX-License-Identifier: Apache-2.0
// Descriptions that are plain text.
#pragma once

#include <string>

#include "sim/topology/import/facts.h"

namespace moesim {

/// Slurm's topology.conf: lines SwitchName=... Switches=... Nodes=..., or BlockName=... Nodes=...
ClusterFacts slurm_conf_facts(const std::string& text, const std::string& name);

/// The matrix of `nvidia-smi topo -m`.
ClusterFacts smi_facts(const std::string& text, const std::string& name);

/// The tables of `rocm-smi --showtopo` and `amd-smi topology`, or their JSON.
ClusterFacts amd_smi_facts(const std::string& text, const std::string& name);

/// What ibnetdiscover prints: switches and channel adapters, a line per connected port.
ClusterFacts ibnetdiscover_facts(const std::string& text, const std::string& name);

}  // namespace moesim
