// SPDX-License-Identifier: Apache-2.0
// Where the time and the memory of one iteration go, per pipeline stage and rank, and why it takes
// so long. Every figure is defined in docs/explain.md.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/report/case_report.h"
#include "sim/report/elasticity.h"
#include "sim/report/path_sums.h"
#include "sim/report/time_bounds.h"

namespace moesim {

/// One GPU in the iteration.
struct RankReport {
  GpuId gpu;
  std::string name;  // of its vertex
  int stage = 0;     // of the pipeline
  IterationTimes times;
  FullestGpu memory;  // its own peak; `mean` stays 0
};

struct IterationExplanation {
  std::string noun = "iteration";  // or "step", of serving
  IterationTimes times;            // of the mean GPU
  std::vector<RankReport> ranks;   // [GPU]
  std::vector<PathSegment> path;
  std::optional<TurnTimes> turns;  // of the mean GPU, if there is a pipeline
  PathSums sums;                   // of the path
  TimeBounds bounds;
  std::vector<Elasticity> elasticities;  // empty if they were not asked for
};

/// Tables: stages, turns, ranks (all of few, else the two extremes of each stage), memory by stage,
/// the critical path, bounds, elasticities.
Printout iteration_explanation_text(const IterationExplanation& explanation);

/// The same, unrounded, with every rank and every segment of the path.
nlohmann::ordered_json iteration_explanation_json(const IterationExplanation& explanation,
                                                  const Plan& plan);

}  // namespace moesim
