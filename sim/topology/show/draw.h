// SPDX-License-Identifier: Apache-2.0
// Draws a cluster with Graphviz.
#pragma once

#include <string>

#include "sim/topology/topology.h"

namespace moesim {

/// Graphviz DOT: hosts are clusters, link classes are colours with a legend. Up to 64
/// vertices are all drawn; beyond, look-alikes are drawn once, with their number.
std::string draw_dot(const Topology& topology);

/// Writes FILE.dot as it is, or FILE.svg through Graphviz's `dot`; both under a temporary name
/// first. Throws Error for another suffix, or when `dot` is needed and missing.
void draw(const Topology& topology, const std::string& file);

}  // namespace moesim
