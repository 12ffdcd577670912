// SPDX-License-Identifier: Apache-2.0
// Parameters of what a pipeline stage holds.
#pragma once

#include <cstdint>

#include "sim/model/moe_model.h"
#include "sim/planner/parallel/layer_layout.h"

namespace moesim {

/// Parameters of a part on one of `tp` tensor-parallel GPUs, besides routed experts.
std::int64_t dense_parameters(const MoeModel& model, int tp, const StagePart& part);
/// Those of them that are whole on every tensor-parallel GPU.
std::int64_t undivided_parameters(const MoeModel& model, const StagePart& part);

}  // namespace moesim
