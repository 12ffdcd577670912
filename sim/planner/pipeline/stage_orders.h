// SPDX-License-Identifier: Apache-2.0
// The order of one stage in each schedule, for a shape that keeps the rules.
#pragma once

#include <array>

#include "sim/planner/pipeline/pipeline.h"

namespace moesim {

/// gpipe, 1F1B, interleaved and both combined kinds: forwards of the warm-up, then a forward and a
/// backward in turn (or merged), then the backwards that are left.
Timetable one_f_one_b_order(const PipelineShape& shape, int stage);

/// The forwards of any of these kinds and of zb1p, which are alike for all stages.
Timetable forward_order(const PipelineShape& shape);

Timetable zb1p_order(const PipelineShape& shape, int stage);

/// ZB-V; V-Half and V-Min.
Timetable zbv_order(const PipelineShape& shape, int stage);
Timetable building_block_order(const PipelineShape& shape, int stage);

/// DualPipe and DualPipeV.
Timetable dualpipe_order(const PipelineShape& shape, int stage);
/// How often a stage runs each of DualPipe's eight steps: `from_end` stages are between it and the
/// nearer end of a pipeline of 2 * half positions, and each of its chunks has `passes` forwards.
std::array<int, 8> dualpipe_steps(int from_end, int half, int passes);

}  // namespace moesim
