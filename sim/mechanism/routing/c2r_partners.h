// SPDX-License-Identifier: Apache-2.0
// Collaboration-constrained routing, C2R (NAACL 2025, UNITES-Lab/c2r-moe).
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/placement/affinity/co_activation.h"

namespace moesim {

/// The other experts of every expert by falling co-choices, ties by lowest id; the expert itself
/// last, as the diagonal of -1 in the authors' profile puts it.
using Partners = std::vector<std::vector<ExpertId>>;
Partners c2r_partners(const PairMatrix& co);

}  // namespace moesim
