// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sim/launched/launched.h"

namespace moesim {

/// Adds the changes that give a topology as many GPUs as the launch has, or those of the topology
/// if nobody says how many, and the dispatch of a cluster that is one NVLink domain. The same of a
/// pool that decodes. Throws Error if it cannot have them, or if degrees do not divide them.
void fit_topology(const std::string& topology, Launched& launched);

}  // namespace moesim
