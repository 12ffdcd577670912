// SPDX-License-Identifier: Apache-2.0
// Layers one after the other, with nothing overlapped.
#pragma once

#include "sim/planner/schedule/schedule.h"
#include "sim/topology/reader.h"

namespace moesim {

/// A step as the sequential schedule makes it, which looks at no topology and no model.
inline void issue_sequentially(LayerOps& ops, bool backward) {
  static const TopologyFile any =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml", {parse_override("nodes=1")});
  static const MoeModel model;
  const auto none = YamlDocument::from_text("{}", "test");
  issue_step(*read_sequential(none->root().map())({any.topology, model}), ops, backward);
}

}  // namespace moesim
