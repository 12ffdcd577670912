// SPDX-License-Identifier: Apache-2.0
// A whole cluster as JSON. Machines that only measure have no YAML, but results of steps need hosts
// and links.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/topology/topology.h"

namespace moesim {

nlohmann::ordered_json cluster_json(const Topology& topology);

/// Throws nlohmann's exceptions, std::invalid_argument and Error for what describes no cluster.
Topology read_cluster(const nlohmann::ordered_json& json);

}  // namespace moesim
