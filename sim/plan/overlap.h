// SPDX-License-Identifier: Apache-2.0
// Kernels and exchanges of one GPU that slow each other (GpuModel::overlap), around any backend.
#pragma once

#include <functional>
#include <vector>

#include "sim/model/gpu_model.h"
#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Per op what it takes longer than by itself; empty: nothing.
using Delays = std::vector<Seconds>;

/// What ops take longer by where they lie in a timeline that was simulated with `delays`: as long
/// as a kernel of the compute lane runs while its GPU is in an exchange that carries data, it
/// advances by 1 / `compute` seconds a second; an exchange, from its last participant's start on,
/// by 1 / `communication` while a participant runs such a kernel, and the slowest participant
/// counts. Host work neither slows nor is slowed.
Delays delays_in(const Plan& plan, const GpuModels& gpus, const Timeline& timeline,
                 const Delays& delays);

/// Simulates without delays, then with those of the timeline before until the makespan settles to
/// 1e-6 of itself, at most 12 times; once where no GPU states an overlap.
Timeline with_overlap(const Plan& plan, const GpuModels& gpus,
                      const std::function<Timeline(const Delays&)>& simulate);

}  // namespace moesim
