// SPDX-License-Identifier: Apache-2.0
// Placements LAER-MoE starts from and is compared with, as its authors run them: on the FSEP
// transport, so that only the placement differs.
#pragma once

#include <cstdint>
#include <span>

#include "sim/mechanism/placement/fsep/slot_grid.h"
#include "sim/plan/placement.h"

namespace moesim::fsep {

/// Slot s of rank j holds expert (j*C + s) mod E: LAER-MoE's first micro-batch. Throws Error when
/// E > N*C.
SlotTable initial_slots(int experts, const SlotGrid& grid);

/// FSDP+EP: slot s of rank j holds expert s*(E/C) + (j mod E/C), groups of E/C ranks with every
/// expert once. Throws Error unless C divides E and E/C divides N.
SlotTable fsdp_ep_slots(int experts, const SlotGrid& grid);

/// SmartMoE's offline pool as LAER-MoE's authors run it: experts by load, descending, each to the
/// least loaded of a group's E/C ranks with a free slot, the same in every group. `loads` are
/// token-slots per expert. Throws Error as fsdp_ep_slots.
SlotTable smart_slots(std::span<const std::int64_t> loads, const SlotGrid& grid);

}  // namespace moesim::fsep
