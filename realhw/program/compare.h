// SPDX-License-Identifier: Apache-2.0
// What a rank holds after a step against the reference.
#pragma once

#include "realhw/core/real_step.h"
#include "realhw/core/reference.h"
#include "realhw/program/device.h"

namespace moesim {

/// Compares outputs and input gradients of the rank's tokens, and weight gradients of its slots. An
/// element is wrong when it is off by more than a share of the largest element of its vector,
/// cancellation aside: one for the arithmetic of the matrices' format, and per exchange on the way
/// back twice the rounding of its rows. A token whose results are not all here counts as wrong in
/// all elements.
Comparison compare(const RealStep& step, const RankProgram& program, Device& device,
                   const CompareOptions& options = {});

}  // namespace moesim
