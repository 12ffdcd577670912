// SPDX-License-Identifier: Apache-2.0
// What a benchmark of a serving engine states, next to the same figures of the simulated engine.
#pragma once

#include <string>
#include <vector>

#include "sim/evidence/serving_validation.h"

namespace moesim {

/// A figure that both have.
struct ServedFigure {
  std::string name;
  double measured, simulated;
  bool is_time = true;

  double error() const { return simulated / measured - 1; }
};

/// Percentiles of both are found as the benchmark's tool finds them.
std::vector<ServedFigure> figures_of(const ServedComparison& run);

}  // namespace moesim
