// SPDX-License-Identifier: Apache-2.0
// Simulates the settings of published tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/evidence/published.h"
#include "sim/evidence/simulated_iteration.h"

namespace moesim {

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
