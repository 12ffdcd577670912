// SPDX-License-Identifier: Apache-2.0
// Collaboration-constrained routing, C2R (NAACL 2025, UNITES-Lab/c2r-moe).
#pragma once

#include <span>
#include <vector>

#include "sim/balance/affinity/co_activation.h"

namespace moesim {

/// The other experts of every expert by falling co-choices, ties by lowest id; the expert itself
/// last, as the diagonal of -1 in the authors' profile puts it.
using Partners = std::vector<std::vector<ExpertId>>;
Partners c2r_partners(const PairMatrix& co);

/// One token's experts by falling score: the best of all `scores`, then the best top_k - 1 among
/// its first `top_t` partners. Throws Error unless top_k - 1 <= top_t <= experts - 1.
std::vector<ExpertId> c2r_route(std::span<const float> scores, const Partners& partners, int top_k,
                                int top_t);

}  // namespace moesim
