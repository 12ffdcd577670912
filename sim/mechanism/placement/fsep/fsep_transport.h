// SPDX-License-Identifier: Apache-2.0
// What FSEP moves and keeps for one layer's experts. No layout changes any of it.
#pragma once

#include <vector>

#include "sim/mechanism/placement/fsep/slot_grid.h"
#include "sim/mechanism/placer.h"

namespace moesim {

/// Bytes of a chunk, an N-th of an expert. Where N does not divide its parameters the shards are
/// padded to the next whole parameter and byte, as PyTorch's FSDP pads; upstream demands that N
/// divides.
Bytes fsep_chunk(const MoeModel& model, const fsep::SlotGrid& grid);

/// Every rank's slots, filled from the shards of its EP group of N ranks; the diagonal is what a
/// rank has itself.
ParamExchange fsep_restore(const PlacementContext& context, const fsep::SlotGrid& grid);

/// Every slot's gradient to the ranks that keep its shards, each chunk by itself. They add up in
/// fp32: a kernel that reads what arrived and writes the sharded gradient.
ParamExchange fsep_reduce(const PlacementContext& context, const fsep::SlotGrid& grid);

/// Shards of all experts all the time: with the default training state 16 bytes per parameter, as
/// upstream (there fp32 weight, gradient and two moments). While layers compute, of two in a row:
/// restored experts, and when training unsharded gradients, one of them delayed, and half of one
/// receive buffer each: 5 x C x Psi x b in all.
std::vector<ExpertMemory> fsep_memory(const PlacementContext& context, const fsep::SlotGrid& grid);

}  // namespace moesim
