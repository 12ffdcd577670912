// SPDX-License-Identifier: Apache-2.0
// Adds to a result document what reports draw, within a limit.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/report/pictures.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// A case of the document, at the same place in its list.
struct PicturedCase {
  std::string group;  // cases that compare with each other
  Seconds time;
  const Topology* topology = nullptr;
  const Pictures* pictures = nullptr;  // null: it has none
};

/// Adds `pictures` to cases of the document, `drawings` of their clusters and `expert_loads` of the
/// trace. Where not all cases fit into a report, those stay that say most: of every group the first
/// and the fastest, then the slowest, then the others in order.
void add_pictures(nlohmann::ordered_json& document, const std::vector<PicturedCase>& cases,
                  const RoutingTrace& trace);

}  // namespace moesim
