// SPDX-License-Identifier: Apache-2.0
// The key `connections` of a topology file.
#pragma once

#include <vector>

#include "sim/base/yaml.h"
#include "sim/topology/connections.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Reads the map, whose queues are the links of the classes it names. Unknown classes are errors of
/// its document.
Connections read_connections(const YamlMap& map, const std::vector<LinkClass>& classes,
                             const std::vector<Link>& links);

}  // namespace moesim
