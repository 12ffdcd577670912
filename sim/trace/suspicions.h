// SPDX-License-Identifier: Apache-2.0
// What looks wrong in a sound trace before anyone believes a result: recordings of warm-up passes,
// padding, slots in place of experts, ranks that repeat each other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/trace/progress.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

/// What the trace is said to be; empty fields are not compared.
struct ExpectedModel {
  std::string name;
  int experts = 0;
  int top_k = 0;
  std::vector<int> moe_layers;
};

struct SuspicionOptions {
  std::optional<ExpectedModel> model = {};
  int interval = 1;  // steps after which a planner first plans
};

/// One sentence each, with its evidence; empty when nothing is suspicious. Reads every id once.
std::vector<std::string> suspicions(const RoutingTrace& trace, const SuspicionOptions& options = {},
                                    const TraceProgress& progress = {});

}  // namespace moesim
