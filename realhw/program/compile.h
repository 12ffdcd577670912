// SPDX-License-Identifier: Apache-2.0
// From a plan with explicit rows and its routing to what one rank does.
#pragma once

#include "realhw/core/real_step.h"
#include "realhw/program/program.h"

namespace moesim {

struct CompileOptions {
  /// Of expert parameters, activations and their gradients; weight gradients are float32 always.
  RowFormat matrices = RowFormat::float32;
};

/// Follows every token row through the plan. Only rows whose exchanges an op waits for, directly or
/// through other ops of the rank, are used by it. Throws std::runtime_error, naming rank and op,
/// when a row that is needed is not there, rows do not fit into their message, or the plan lists no
/// rows.
RankProgram compile(const RealStep& step, GpuId rank, const CompileOptions& options = {});

}  // namespace moesim
