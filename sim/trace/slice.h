// SPDX-License-Identifier: Apache-2.0
// A part of a trace: some steps, layers, sequences and tokens.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/trace/progress.h"
#include "sim/trace/routing_trace.h"

namespace moesim {

struct SliceOptions {
  std::optional<std::pair<int, int>> steps = {};  // indices [first, second) of the recorded steps
  std::vector<int> layers = {};                   // model layer numbers; empty: all
  // Indices [first, second) of the sequences of each step; a step with fewer gives those it has.
  std::optional<std::pair<int, int>> sequences = {};
  std::optional<std::int64_t> tokens = {};  // the first of each step; the last sequence is cut
  std::string name = {};                    // default: the name of the trace
};

/// A view of the part, which shares the steps, so `trace` may be destroyed. Throws Error when the
/// part of a step is empty or names layers that the trace lacks.
RoutingTrace slice(const RoutingTrace& trace, const SliceOptions& options);

}  // namespace moesim
