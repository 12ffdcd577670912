// SPDX-License-Identifier: Apache-2.0
// What reports call the parts of a cluster.
#pragma once

#include <string>

#include "sim/topology/topology.h"

namespace moesim {

/// "node0.gpu1".
std::string gpu_name(const Topology& topology, GpuId gpu);

/// "node0.nic0 -> leaf0"; what both names begin with is written once: "node0.gpu1 -> nic1".
std::string link_name(const Topology& topology, LinkId link);

}  // namespace moesim
