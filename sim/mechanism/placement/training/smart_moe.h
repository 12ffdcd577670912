// SPDX-License-Identifier: Apache-2.0
// SmartMoE's online expert mapping (Zhai et al., USENIX ATC 2023; thu-pacman/SmartMoE-AE,
// smartmoe/mapping.py): a permutation of the experts over the slots.
#pragma once

#include <span>
#include <vector>

#include "sim/mechanism/owners.h"

namespace moesim {

/// A mapping and the parameters that reaching it moves: every expert whose slot changed, in expert
/// order, also from one slot of a GPU to another. No optimizer state moves.
struct SmartMoeMapping {
  SlotTable table;
  std::vector<ExpertTransfer> transfers;
};

/// Experts by falling load, each to the next slot of the GPU with a free slot and the least load so
/// far, but to its own GPU if that has as little and room; `current` stays unless the largest GPU
/// load falls. history: choices per expert; every GPU keeps its number of slots. Equal loads are
/// ordered by ascending id (the published code takes an unstable sort's order). Throws Error unless
/// every expert has one slot.
SmartMoeMapping smart_moe_map(const SlotTable& current, std::span<const std::int64_t> history,
                              Bytes parameters);

}  // namespace moesim
