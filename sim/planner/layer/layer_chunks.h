// SPDX-License-Identifier: Apache-2.0
// A layer's rows in chunks that are dispatched, computed and combined by themselves.
#pragma once

#include <vector>

#include "sim/mechanism/ep_groups.h"
#include "sim/planner/layer/replayed_layer.h"
#include "sim/planner/schedule/schedule.h"

namespace moesim {

/// The chunks of a layer but tiles (layer_waves.h), with the counts of their rows. Throws
/// Unsuitable if the dispatch or the assignment cannot be cut so.
std::vector<LayerWork> chunks_of(const LayerWork& work, const LayerTokens& tokens,
                                 const EpGroups& groups, const Chunking& chunking);

/// Gives the chunks of a layer their explicit rows; the layer has its own.
void add_chunk_rows(LayerWork& work, const LayerTokens& tokens, const EpGroups& groups,
                    const Chunking& chunking);

}  // namespace moesim
