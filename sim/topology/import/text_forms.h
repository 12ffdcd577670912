// SPDX-License-Identifier: Apache-2.0
// Descriptions that are plain text.
#pragma once

#include <string>
#include <vector>

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

/// What iblinkinfo prints: the ports of each switch.
ClusterFacts iblinkinfo_facts(const std::string& text, const std::string& name);

/// The host in how an adapter describes itself: "node01 mlx5_0" and "node01 HCA-1" are of one;
/// empty for the adapter of a switch's own, which shows as a host.
std::string host_of_adapter(const std::string& description);
/// Whether an adapter describes its product, as it does if nobody gave it the name of a host:
/// "MT4129 ConnectX7   Mellanox Technologies".
bool is_product(const std::string& description);
/// `links` are those to hosts; hosts with few of them, as storage has, are left out. Throws Error
/// if a switch or the other end of a link is not described, as in a file that was cut, and if
/// adapters do not say of which hosts they are.
ClusterFacts infiniband_facts(FabricFacts fabric, std::vector<HostLink> links,
                              const std::string& form, const std::string& name);

}  // namespace moesim
