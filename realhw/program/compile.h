// SPDX-License-Identifier: Apache-2.0
// Compiles a plan with explicit rows and its routing into what one rank does.
#pragma once

#include "realhw/core/real_step.h"
#include "realhw/program/program.h"

namespace moesim {

struct CompileOptions {
  /// Format of expert parameters, activations and their gradients; weight gradients are float32
  /// always.
  RowFormat matrices = RowFormat::float32;
};

/// Follows every token row through the plan. An op uses only rows of exchanges that it waits for,
/// directly or through other ops of the rank: another row might be there by luck, and missing in
/// the next execution. Throws std::runtime_error, naming rank and op, when a row that is needed is
/// not there, rows do not fit into their message, or the plan lists no rows.
RankProgram compile(const RealStep& step, GpuId rank, const CompileOptions& options = {});

}  // namespace moesim
