// SPDX-License-Identifier: Apache-2.0
// The steady state of a simulated pipeline, from which that of more microbatches follows.
#pragma once

#include <optional>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/priced.h"
#include "sim/plan/timeline.h"
#include "sim/planner/pipeline/shortened.h"
#include "sim/report/continued.h"
#include "sim/report/critical_path.h"
#include "sim/run/gpu_turns.h"

namespace moesim {

/// What the whole step has in addition, and what was looked at to find out.
struct SteadyState {
  Continued continued;
  std::vector<PathSegment> path;  // the critical path of the whole step
  std::vector<TurnsOfGpu> turns;  // [GPU] turns_of_gpus of the shorter pipeline
};

/// The last period before the pipeline runs out of microbatches, if every GPU does in it what it
/// did a period before: ops depend only on ops, so it continues like that while turns repeat.
///  - A period takes what it takes on the critical path; `error` is three times what other turns
///    differ by that start in it, in all periods left out.
///  - A host must wait for its GPU in every period, or issue it in less time: a lead that shrinks
///    would end.
/// Nothing if the error is above 0.4 % of the step, or if ops within turns drift by over 1 % of
/// it. `stages`: [GPU] its stage, below 0 if another stands for it.
std::optional<SteadyState> steady_state(const PricedPlan& priced, const Timeline& timeline,
                                        const ShortenedPipeline& shortened,
                                        const std::vector<int>& stages, const GpuModels& gpus);

}  // namespace moesim
