// SPDX-License-Identifier: Apache-2.0
// Compares what a rank holds after a step with the reference.
#pragma once

#include "realhw/core/real_step.h"
#include "realhw/core/reference.h"
#include "realhw/program/device.h"

namespace moesim {

/// Compares outputs and input gradients of the rank's tokens, and weight gradients of its slots. An
/// element is wrong when it is off by more than
///
///   (tolerance of the matrices' format + sum over the exchanges on the way back of 2 x rounding of
///   their rows) x largest magnitude in its vector
///
/// with magnitudes summed without signs, so that cancellation does not tighten the bound. A token
/// whose results are not all here counts as wrong in all elements.
Comparison compare(const RealStep& step, const RankProgram& program, Device& device,
                   const CompareOptions& options = {});

}  // namespace moesim
