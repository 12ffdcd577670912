// SPDX-License-Identifier: Apache-2.0
// Topologies from what clusters say of themselves: dumps of NCCL, nvidia-smi, InfiniBand, Slurm ...
#pragma once

#include <string>
#include <vector>

#include "sim/topology/import/facts.h"

namespace moesim {

/// Throws Error, with the line if there is one, for a file that is not of a known form or is
/// broken.
ClusterFacts read_facts(const std::string& path);
ClusterFacts parse_facts(const std::string& text, const std::string& name);

/// One cluster from several files, as the text of a topology. Every line says whether its value was
/// read, and where, or assumed. `gpu` names the GPU model; empty: what the files say. Throws Error
/// for files that contradict each other.
std::string topology_text(const std::vector<ClusterFacts>& files, const std::string& gpu);

/// The values of a topology file that are marked as assumed: "node.nics.bandwidth" with its value.
std::vector<std::string> assumed_in(const std::string& text);

}  // namespace moesim
