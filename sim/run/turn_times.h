// SPDX-License-Identifier: Apache-2.0
// An iteration taken apart by what the turns of its pipeline are.
#pragma once

#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"
#include "sim/planner/pipeline/pipeline.h"
#include "sim/report/continued.h"
#include "sim/report/turn_times.h"
#include "sim/run/gpu_turns.h"

namespace moesim {

/// Times of the mean GPU of every stage; `stages`: [GPU] its stage of the pipeline, below 0 if
/// another stands for it.
///  - A turn lasts from the start of its first kernel or exchange to the end of its last one, but
///    begins no earlier than the turn before it has ended: so every moment counts once.
///  - Transfers between stages, and exchanges between replicas, are not part of a turn.
std::vector<TurnTimes> turn_times_by_stage(const Plan& plan, const Timeline& timeline,
                                           const Pipeline& pipeline,
                                           const std::vector<int>& stages);
/// The same of turns that are known (turns_of_gpus), up to the makespan of their timeline.
std::vector<TurnTimes> turn_times_by_stage(const std::vector<TurnsOfGpu>& gpus, Seconds makespan,
                                           const Pipeline& pipeline, const std::vector<int>& stages,
                                           const Continued* continued = nullptr);

}  // namespace moesim
