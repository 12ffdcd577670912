// SPDX-License-Identifier: Apache-2.0
// METRO, minimum expert token routing (arXiv 2512.09277): which replica serves a batch, so that no
// GPU reads the weights of many experts.
#pragma once

#include <cstdint>
#include <span>

#include "sim/plan/assignment.h"

namespace moesim {

/// One replica of every expert serves all of its choices in a batch; `counts`: [expert] choices.
/// Experts with choices are dealt out, those with the fewest GPUs to choose from first: to the GPU
/// with the fewest experts so far, of several to that with the fewest choices. Ties: lower expert,
/// lower GPU. An interpretation of the paper's greedy routing.
Assignment fewest_activated(const Placement& slots, std::span<const std::int64_t> counts);

}  // namespace moesim
