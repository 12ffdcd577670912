// SPDX-License-Identifier: Apache-2.0
// What a pipeline's order costs by itself: chunks that all take alike, transfers that take no time.
#pragma once

#include <vector>

#include "sim/base/types.h"
#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

/// Per pass of one microbatch through one model chunk.
struct TurnCosts {
  Seconds forward, input_gradient, weight_gradient;
  Seconds merged;  // a forward with a backward: max(F, B) <= FB <= F + B
  Seconds of(const Turn& turn) const;
};

struct TurnSpan {
  Seconds start, end;
};

struct IdealTimes {
  std::vector<std::vector<TurnSpan>> turns;  // [stage][turn]
  Seconds makespan;
  std::vector<Seconds> bubble;  // [stage], makespan - busy time
};

/// A stage runs a turn as soon as it has run the one before and all inputs are there.
IdealTimes ideal_times(const Pipeline& pipeline, const TurnCosts& costs);

/// Activations that a stage holds during each of its turns, in passes of a microbatch through one
/// of its chunks: from the start of the forward until all gradients of the pass have been computed
/// (the inputs of layers stay until the weight gradients).
std::vector<int> live_activations(const Timetable& timetable);

}  // namespace moesim
