// SPDX-License-Identifier: Apache-2.0
// All equal-cost paths of one pair of GPUs.
#pragma once

#include "sim/topology/route/routes.h"

namespace moesim {

/// See Topology::paths.
std::vector<Path> all_paths(const Routes& routes, int from, int to);

}  // namespace moesim
