// SPDX-License-Identifier: Apache-2.0
// Simulates the settings of published tables.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/papers/published.h"

namespace moesim {

/// A figure as simulated.
struct PredictedFigure {
  double value = 0;                    // seconds, speedup or load
  std::string why;                     // there is none; else empty
  std::string inputs = {};             // hash of all that it was made of
  std::optional<double> formula = {};  // what is published, if a formula says it

  bool there() const { return why.empty(); }
};

/// Of one table: [figure].
using PredictedTable = std::vector<PredictedFigure>;

/// Every policy of every setting once, in worker processes, then the figures of all tables:
/// [table]. Throws Error for a setting that cannot be.
std::vector<PredictedTable> predict(const std::vector<PaperTable>& tables, int workers);

}  // namespace moesim
