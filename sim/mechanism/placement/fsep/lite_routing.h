// SPDX-License-Identifier: Apache-2.0
// Lite routing: which slots serve each rank's choices, and how many each.
#pragma once

#include <vector>

#include "sim/mechanism/placement/fsep/spread.h"
#include "sim/plan/assignment.h"

namespace moesim::fsep {

/// Shares [rank][expert] of LAER-MoE's lite routing of these very counts: the slots in reach in
/// ascending order, floor(t/w) choices each and one more for the first t mod w; slots without any
/// are left out. Which token meets which slot is not ordered upstream; here the first choices take
/// the first slot. Without choices: the first slot in reach. Throws Error as `spread`.
std::vector<std::vector<Shares>> lite_shares(const LoadMatrix& loads, const Reach& reach);

}  // namespace moesim::fsep
