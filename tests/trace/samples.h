// SPDX-License-Identifier: Apache-2.0
// Traces of a few tokens for tests.
#pragma once

#include <numeric>

#include "sim/trace/memory_step.h"

namespace moesim {

/// One layer (model layer 0), 4 experts, top-2: 3 tokens {0,1} {2,3} {0,2} in sequences of 2 and 1.
inline RoutingTrace tiny_trace() {
  const TraceInfo info{"tiny", "toy", 4, 2, {0}, Phase::training, ""};
  StepArrays step;
  step.number = 7;
  step.ids = IdArray(4, {0, 1, 2, 3, 0, 2});
  step.sequence_lengths = {2, 1};
  return {info, {make_step(info, std::move(step))}};
}

/// One layer, 4 experts, top-1: sequences of the given lengths, token t chooses expert t mod 4.
inline RoutingTrace trace_of_sequences(const std::vector<std::vector<std::int32_t>>& steps) {
  const TraceInfo info{"sequences", "toy", 4, 1, {0}, Phase::training, ""};
  std::vector<std::shared_ptr<const TraceStep>> made;
  for (const auto& lengths : steps) {
    StepArrays step;
    step.number = static_cast<std::int64_t>(made.size());
    step.sequence_lengths = lengths;
    const int tokens = std::accumulate(lengths.begin(), lengths.end(), 0);
    step.ids = IdArray(4, tokens);
    for (int t = 0; t < tokens; ++t) step.ids.set(t, t % 4);
    made.push_back(make_step(info, std::move(step)));
  }
  return {info, std::move(made)};
}

}  // namespace moesim
