// SPDX-License-Identifier: Apache-2.0
// The levels of HybridEP (arXiv 2510.19470): what its placement and its dispatch agree upon.
#pragma once

#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/mechanism/rank_space.h"

namespace moesim {

/// What the ranks of an EP group count as: workers of the cluster's levels down to hosts, or one
/// row.
enum class DomainLevels { cluster, flat };

/// Reads `levels`: cluster (default) or flat.
DomainLevels read_domain_levels(const YamlMap& params);

/// Workers (SF) per worker of the level above, coarsest first; their product is the ranks. The last
/// level is the GPUs of a host; links inside a host are one level (unstated in the paper, which has
/// levels of one bandwidth). One level if the groups of a level differ in size.
std::vector<int> domain_workers(const RankSpace& ranks, DomainLevels levels);

}  // namespace moesim
