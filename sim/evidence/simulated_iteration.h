// SPDX-License-Identifier: Apache-2.0
// What a row of iterations takes as simulated, with all its microbatches.
#pragma once

#include <string>
#include <vector>

#include "sim/report/iteration_metrics.h"
#include "sim/report/turn_times.h"

namespace moesim {

struct SimulatedIteration {
  IterationTimes times;                // of the mean GPU
  std::vector<TurnTimes> stage_turns;  // of the pipeline's stages; none without a pipeline
  double flop_per_token = 0;           // model flop, forward and backward; 0: unknown
  double masked_flop = 0;              // of the scores per token that a causal mask leaves out
  Bytes peak, memory;                  // of the fullest GPU, and what it has
  int gpus = 0;
  std::string network = {};    // between its hosts; empty: it has one
  bool lacks_routing = false;  // it ran balanced, for want of its recorded routing
  std::string why, inputs;     // as those of PredictedFigure

  bool fits() const { return peak <= memory; }
};

}  // namespace moesim
