// SPDX-License-Identifier: Apache-2.0
// Simulates the rows of published iterations.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/evidence/predict.h"

namespace moesim {

/// By table and figure.
using PredictedRows = std::map<std::pair<std::size_t, std::size_t>, PredictedFigure>;

/// All rows of the tables, every scenario once, in worker processes. Of many microbatches two
/// smaller numbers are simulated unless the row or the options ask for all: once a pipeline is
/// full, each further one takes nearly the same time. Throws Error for a row that is no scenario.
PredictedRows predict_iterations(const std::vector<PaperTable>& tables,
                                 const PredictOptions& options);

/// Two numbers of microbatches that show what each further one takes.
struct FewerMicrobatches {
  int first = 0, second = 0;
};
/// Nothing for iterations that are hardly longer. `microbatches`: of a replica.
std::optional<FewerMicrobatches> fewer_microbatches(int stages, int chunks, int microbatches);

/// `second`, and `times` more of what it takes longer than `first`.
SimulatedIteration extended(const SimulatedIteration& first, SimulatedIteration second,
                            double times);

}  // namespace moesim
