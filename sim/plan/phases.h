// SPDX-License-Identifier: Apache-2.0
// Which exchanges of a plan run at once, and what belongs to them besides.
#pragma once

#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// The exchanges of a plan in groups that run simultaneously and share their links: those of one
/// key are the communicators of one phase. What repeats on a GPU, or belongs to no layer, is
/// another phase. Ops ascend within a phase, phases by their first op.
std::vector<std::vector<OpId>> exchange_phases(const Plan& plan);

/// Whether an op is what a GPU needs at least for the token exchange that follows it in the plan,
/// however few bytes that moves: host work on the copy stream, during the exchange. What waits for
/// the exchange waits for both.
bool is_minimum_time(const Op& op);

}  // namespace moesim
