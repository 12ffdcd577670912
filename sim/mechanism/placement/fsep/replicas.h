// SPDX-License-Identifier: Apache-2.0
// How many copies of each expert: the two candidates of LAER-MoE's planner.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/mechanism/placement/fsep/slot_grid.h"

namespace moesim::fsep {

/// Copies per expert, which fill all slots of the grid.
struct Replicas {
  std::vector<int> of;           // per expert, >= 1
  int base = 1;                  // copies every expert started with
  std::vector<ExpertId> frozen;  // experts whose next step no longer fitted, in that order
};

/// N*C/E copies of every expert; nothing unless E divides N*C.
std::optional<Replicas> even_replicas(int experts, const SlotGrid& grid);

/// Copies by priority queue (LAER-MoE, arXiv 2602.11686, as its released planner does): from one
/// copy per node if that fits, else from one, the expert with the largest load per copy gets more:
/// one per node once it has as many copies as nodes, one at a time before. Equal loads: the lowest
/// expert. `loads` are token-slots per expert. Throws Error when E > N*C.
Replicas queue_replicas(std::span<const std::int64_t> loads, const SlotGrid& grid);

}  // namespace moesim::fsep
