// SPDX-License-Identifier: Apache-2.0
// Which members of a group are on one node.
#pragma once

#include <vector>

#include "sim/collective/collective.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Members by the host of their GPU.
MemberNodes nodes_of(const std::vector<GpuId>& members, const Topology& topology);

}  // namespace moesim
