// SPDX-License-Identifier: Apache-2.0
// How ranks use the replicas of an expert if a system has a fixed rule for it.
#pragma once

#include <string>
#include <vector>

#include "sim/mechanism/ep_groups.h"

namespace moesim {

/// Whose replicas a rank may use: those in its EP group that are nearest, evenly.
enum class ReplicaUse {
  any,        // all of the group
  node_first  // its own, else its node's, else all of the group
};

/// Names as they appear in YAML, in the order of ReplicaUse.
inline const std::vector<std::string> replica_use_names = {"any", "node-first"};

/// Choices go round-robin over the replicas that a rank may use; ranks start at different ones, so
/// that single choices spread too: rank 0 at replica `first` modulo the replicas.
Assignment assign_replicas(const Placement& slots, const RankSpace& ranks, GpuId first,
                           ReplicaUse use);

}  // namespace moesim
