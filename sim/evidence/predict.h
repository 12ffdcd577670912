// SPDX-License-Identifier: Apache-2.0
// Simulates the settings of published tables: layers, and iterations with all their microbatches.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/evidence/published.h"
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

/// A figure as simulated.
struct PredictedFigure {
  double value = 0;         // seconds, speedup or load
  std::string why;          // there is none; else empty
  std::string inputs = {};  // hash of all that it was made of
  /// What is published, if only a simulation tells: a formula's bubble, the time of a printed rate.
  std::optional<double> published = {};
  std::optional<SimulatedIteration> iteration = {};  // of a row of iterations

  bool there() const { return why.empty(); }
};

/// Of one table: [figure].
using PredictedTable = std::vector<PredictedFigure>;

struct PredictOptions {
  int workers = 1;
  std::string traces = {};  // folder of recorded routing; empty: rows that have some run balanced
  bool whole = false;       // all microbatches of every row of iterations
};

/// Every policy of every setting once, in worker processes, then the figures of all tables:
/// [table]. Throws Error for a setting that cannot be.
std::vector<PredictedTable> predict(const std::vector<PaperTable>& tables,
                                    const PredictOptions& options);

}  // namespace moesim
