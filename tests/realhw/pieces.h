// SPDX-License-Identifier: Apache-2.0
// Plans whose tokens go through their experts in two pieces, as schedules that pipeline would.
#pragma once

#include "realhw/core/real_step.h"

namespace moesim {

/// Every token exchange and expert kernel becomes two: for tokens of even number, and of odd
/// number. `turned`: odd ones come first in the backward pass.
Plan in_two_pieces(const Plan& plan, const RealStep& step, bool turned);

}  // namespace moesim
