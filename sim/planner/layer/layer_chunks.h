// SPDX-License-Identifier: Apache-2.0
// A layer's rows in chunks that are dispatched, computed and combined by themselves.
#pragma once

#include <functional>
#include <vector>

#include "sim/mechanism/ep_groups.h"
#include "sim/planner/layer/replayed_layer.h"
#include "sim/planner/schedule/schedule.h"

namespace moesim {

/// Counts the rows of a part of a layer's tokens.
using CountRows = std::function<RowCounts(const LayerTokens& part)>;

/// The chunks of a layer but tiles (layer_waves.h), with the counts of their rows. Throws
/// Unsuitable if the dispatch or the assignment cannot be cut so.
std::vector<LayerWork> chunks_of(const LayerWork& work, const LayerTokens& tokens,
                                 const EpGroups& groups, const Chunking& chunking,
                                 const CountRows& count_rows);

/// Four chunks of results: with more of them kernels would be too short. Throws Unsuitable if a
/// schedule has chunks of its own.
Chunking with_results(Chunking chunking);
/// Throws Unsuitable for chunks of results if a backward pass follows.
void check_passes(const Chunking& chunking, bool backward);

/// Gives the chunks of a layer their explicit rows; the layer has its own.
void add_chunk_rows(LayerWork& work, const LayerTokens& tokens, const EpGroups& groups,
                    const Chunking& chunking);

}  // namespace moesim
