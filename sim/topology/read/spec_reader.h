// SPDX-License-Identifier: Apache-2.0
// Reads the parts of a topology file; the functions are the schema.
#pragma once

#include "sim/base/yaml.h"
#include "sim/topology/generate/spec.h"
#include "sim/topology/read/plausible.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Limits that no link can exceed: beyond them the unit is mistyped.
inline constexpr Range possible_bandwidth{1, 1e15};  // 1 B/s to 1 PB/s
inline constexpr Range possible_latency{0, 60};      // up to a minute

/// The required key, within what is possible.
BytesPerSecond read_bandwidth(const YamlMap& map);
Seconds read_latency(const YamlMap& map);
/// `bandwidth` (a quantity or a table) and `latency`, or `calibration` in their place (a
/// `bandwidth` next to it scales its table, a `latency` replaces its own), and `crowded`, of a map.
/// Warns of what no link of that kind has.
Wire read_wire(const YamlMap& map, LinkKind kind);
/// Warns when the map has a key whose value changes nothing.
void warn_without_effect(const YamlMap& map, const std::string& key, const std::string& why);

NodeSpec read_node(const YamlMap& map);
FabricSpec read_fabric(const YamlMap& map, const SiteSpec& site);
/// The keys `nodes` and `node` (or `groups`) and `fabric` of a data center or of a whole file.
SiteSpec read_site(const YamlMap& map, bool alone);
WanSpec read_wan(const YamlMap& map, int data_centers);
/// The keys `vertices`, `links` and `tiers`.
Topology::Parts read_explicit(const YamlMap& map);

}  // namespace moesim
