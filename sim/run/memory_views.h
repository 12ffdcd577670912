// SPDX-License-Identifier: Apache-2.0
// The memory of a planned step, as reports take it.
#pragma once

#include <string>
#include <vector>

#include "sim/planner/iteration/step_memory.h"
#include "sim/report/metrics.h"
#include "sim/report/pictures.h"

namespace moesim {

/// What the memory of a GPU consists of, as reports call it.
std::vector<std::string> memory_part_names();
/// The fullest moment of a GPU; `mean` is left 0.
FullestGpu peak_of(const StepMemory& memory, GpuId gpu, const GpuModels& gpus);
/// Memory of the fullest GPU, with the mean of all.
FullestGpu fullest_of(const StepMemory& memory, const GpuModels& gpus);
/// [GPU] its stage of the pipeline.
std::vector<int> stages_of(const StepMemory& memory);
/// What the fullest GPU holds in each turn of its stage.
MemoryCurve memory_curve(const StepMemory& memory, const Pipeline& pipeline, const GpuModels& gpus);

}  // namespace moesim
