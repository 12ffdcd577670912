// SPDX-License-Identifier: Apache-2.0
// How ranks use the replicas of an expert where a system has a fixed rule for it.
#pragma once

#include <string>
#include <vector>

#include "sim/plan/assignment.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Whose replicas a rank may use: those in its expert-parallel run that are nearest, evenly.
enum class ReplicaUse {
  any,        // all of the run
  node_first  // its own GPU's, else its node's, else all of the run
};

/// Names as they appear in YAML, in the order of ReplicaUse.
inline const std::vector<std::string> replica_use_names = {"any", "node-first"};

/// GPUs per host. Throws Error naming `who` unless hosts are runs of equally many GPUs.
int gpus_per_host(const Topology& topology, const std::string& who);

/// Choices go round robin over the replicas that a rank may use; ranks start at different ones, so
/// that single choices spread too.
Assignment assign_replicas(Placement placement, int ep, int gpus_per_node, ReplicaUse use);

}  // namespace moesim
