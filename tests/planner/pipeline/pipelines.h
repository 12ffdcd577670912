// SPDX-License-Identifier: Apache-2.0
// Pipelines and their ideal times in numbers that fit one's head.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/planner/pipeline/ideal_times.h"

namespace moesim::test {

using Kind = PipelineKind;

/// F forward, Bi and W the two parts of a backward, FB merged.
inline TurnCosts costs(double f, double bi, double w, double fb = 0) {
  return {.forward = Seconds(f),
          .input_gradient = Seconds(bi),
          .weight_gradient = Seconds(w),
          .merged = Seconds(fb)};
}

inline Pipeline pipeline(PipelineKind kind, int stages, int microbatches, int chunks = 1) {
  return Pipeline({.kind = kind, .stages = stages, .microbatches = microbatches, .chunks = chunks});
}

inline double makespan(const Pipeline& pipeline, const TurnCosts& costs) {
  return ideal_times(pipeline, costs).makespan.value;
}

inline double worst_bubble(const Pipeline& pipeline, const TurnCosts& costs) {
  const std::vector<Seconds> bubble = ideal_times(pipeline, costs).bubble;
  return std::max_element(bubble.begin(), bubble.end())->value;
}

/// The most activations that each stage holds at a time.
inline std::vector<int> peaks(const Pipeline& pipeline) {
  std::vector<int> found;
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    const std::vector<int> live = live_activations(pipeline.of(stage));
    found.push_back(*std::max_element(live.begin(), live.end()));
  }
  return found;
}

}  // namespace moesim::test
