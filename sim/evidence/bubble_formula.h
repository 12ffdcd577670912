// SPDX-License-Identifier: Apache-2.0
// What the formula of a pipeline's schedule says of a simulated iteration.
#pragma once

#include <optional>
#include <vector>

#include "sim/planner/pipeline/pipeline.h"
#include "sim/report/turn_times.h"

namespace moesim {

/// The bubble that a schedule's publication states, with turns that take what those of a simulated
/// iteration take on average: docs/pipelines.md has the formulas and their sources.
/// - `stages`: of every stage of the pipeline.
/// - Nothing for schedules whose publication has no formula.
std::optional<Seconds> formula_bubble(const Pipeline& pipeline,
                                      const std::vector<TurnTimes>& stages);

}  // namespace moesim
