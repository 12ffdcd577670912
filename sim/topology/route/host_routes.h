// SPDX-License-Identifier: Apache-2.0
// Routes between GPUs and the memory of their hosts.
#pragma once

#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

/// [rank] the cheapest links to the vertex of Parts::host_memory that stay in the host and pass no
/// other GPU; empty if there are none. No list if the parts name no such vertex.
std::vector<HostRoute> find_host_routes(const Topology::Parts& parts);

/// [rank] the socket of its host that is the cheapest to reach; an id below 0: it reaches none.
std::vector<VertexId> nearest_sockets(const Topology::Parts& parts);

/// What copies of GPUs to the memory of their hosts, or back, ask of the links. Throws Error if a
/// GPU that copies has no route.
LinkLoads host_loads(const Topology& topology, const GroupTraffic& traffic);

}  // namespace moesim
