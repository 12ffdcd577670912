// SPDX-License-Identifier: Apache-2.0
// What a kernel of tiles is written for, and how high its tiles are.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/mechanism/ep_groups.h"
#include "sim/planner/schedule/schedule.h"

namespace moesim {

/// Throws Unsuitable, naming what would fit, unless the kernel is written for weights of this type
/// and for GPUs of these models. Returns the least multiprocessors of them.
int sms_for(const TiledKernel& kernel, DataType of_model, const EpGroups& groups);

/// Whether products by themselves fill tiles: the kernel is written for weights of this type, for
/// GPUs of these models and, unless it is for all of them, for this pass.
bool fill_tiles(const Chunking& chunking, DataType of_model, const EpGroups& groups, bool backward);

/// The height of the tiles of a layer whose experts have so many rows.
int tile_rows(const TiledKernel& kernel, const std::vector<std::int64_t>& slot_rows);

}  // namespace moesim
