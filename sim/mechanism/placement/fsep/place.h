// SPDX-License-Identifier: Apache-2.0
// Which slots the copies get: LAER-MoE's greedy placement.
#pragma once

#include <cstdint>
#include <span>

#include "sim/mechanism/placement/fsep/slot_grid.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

/// The experts in every rank's slots, ascending within a rank, possibly repeated.
struct Placed {
  SlotTable slots;
  int fallbacks = 0;  // copies for which no node with the fewest copies had a free slot
};

/// Copies by load per copy, heaviest first, each on a node with the fewest copies of its expert,
/// there on the rank with the least load so far (LAER-MoE, `get_greedy_placement`); when all such
/// nodes are full, on the least loaded rank with a free slot. Ties: lowest expert, lowest rank.
/// `loads` and `copies` are per expert; throws Error unless the copies, 1 or more each, fill the
/// slots.
Placed place(std::span<const std::int64_t> loads, std::span<const int> copies,
             const SlotGrid& grid);

}  // namespace moesim::fsep
