// SPDX-License-Identifier: Apache-2.0
// The bytes an exchange puts on every link, from sums per destination and per (source, entrance).
#pragma once

#include "sim/topology/route/routes.h"

namespace moesim {

/// See Topology::loads, without times; `links` is the number of links. Entry (i, j) goes from
/// member i to member j, where `transposed` from j to i.
LinkLoads link_loads(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
                     std::span<const GpuId> members, bool transposed);

}  // namespace moesim
