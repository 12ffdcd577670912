// SPDX-License-Identifier: Apache-2.0
// What the tokens of a recorded step attend to.
#pragma once

#include <cmath>
#include <cstdint>

#include "sim/trace/routing_trace.h"

namespace moesim {

/// Tokens that a token attends to under a causal mask, the mean over the recorded step.
inline std::int64_t mean_attended(const TraceStep& step) {
  double pairs = 0, tokens = 0;
  for (const double length : step.sequence_lengths()) {
    pairs += length * (length + 1) / 2;
    tokens += length;
  }
  return tokens > 0 ? static_cast<std::int64_t>(std::llround(pairs / tokens)) : 0;
}

}  // namespace moesim
