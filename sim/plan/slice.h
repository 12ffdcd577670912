// SPDX-License-Identifier: Apache-2.0
// Some ops of a plan as a plan of their own.
#pragma once

#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// The ops `kept` (ascending ids) of a checked plan, renumbered from 0. Where two of them share a
/// GPU they keep the order that streams and waits gave them, also through ops that are left out.
Plan slice(const Plan& plan, const std::vector<OpId>& kept);

}  // namespace moesim
