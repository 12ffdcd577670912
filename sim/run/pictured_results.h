// SPDX-License-Identifier: Apache-2.0
// Adds to a result document the data that reports draw, up to a limit of bytes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/report/pictures.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// A case of the document. The order is that of the document's `cases`.
struct PicturedCase {
  /// Cases of one group are compared with each other.
  std::string group;
  Seconds time;
  const Topology* topology = nullptr;
  /// Null if the case has no pictures.
  const Pictures* pictures = nullptr;
};

/// Adds `pictures` to cases of the document, `drawings` of their clusters and `expert_loads` of the
/// trace. If not all pictures fit within the limit, cases get theirs in this order: the first and
/// the fastest of every group, then the slowest of every group, then all others.
void add_pictures(nlohmann::ordered_json& document, const std::vector<PicturedCase>& cases,
                  const RoutingTrace& trace);

}  // namespace moesim
