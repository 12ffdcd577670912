// SPDX-License-Identifier: Apache-2.0
// Which expert weights a change of placement moves.
#pragma once

#include <span>
#include <vector>

#include "sim/plan/placement.h"

namespace moesim {

/// One expert's weights travel from a GPU to another.
struct WeightMove {
  ExpertId expert;
  GpuId from;
  GpuId to;
  auto operator<=>(const WeightMove&) const = default;
};

/// The moves from one slot table to another, by destination, then in slot order. A GPU that holds
/// the expert already needs none, one that gets it several times needs one; the sender is the
/// lowest holder on the destination's host (`hosts`: [gpu]), else the lowest of all. Throws Error
/// when the tables have different GPUs or nobody holds a wanted expert.
std::vector<WeightMove> weight_moves(const SlotTable& before, const SlotTable& after,
                                     std::span<const int> hosts);

}  // namespace moesim
