// SPDX-License-Identifier: Apache-2.0
// What it costs to send between the ranks of a cluster, for balancers that place experts by it.
#pragma once

#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/topology/topology.h"

namespace moesim {

/// [from][to]: how long `size` bytes (> 0) take from one rank to another, with nothing else on the
/// links: latency of the route + bytes / bandwidth of its slowest link, without the overhead of an
/// exchange. 0 from a rank to itself.
std::vector<std::vector<Seconds>> rank_costs(const Topology& topology, Bytes size);

/// JSON {"rank_cost_matrix": [[us]]}, as the option --eplb-topology that is proposed for SGLang
/// reads it.
std::string rank_costs_text(const std::vector<std::vector<Seconds>>& costs);

}  // namespace moesim
