// SPDX-License-Identifier: Apache-2.0
// How large a generated cluster gets, before it takes memory.
#pragma once

#include "sim/topology/cluster_limits.h"
#include "sim/topology/generate/spec.h"

namespace moesim {

/// A file of a few bytes can ask for more switches and cables than fit the memory, or more routes
/// than can be computed. Throws Error for those.
void check_size(const ClusterSpec& spec, const ClusterLimits& limits);

}  // namespace moesim
