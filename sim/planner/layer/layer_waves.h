// SPDX-License-Identifier: Apache-2.0
// The rows of a layer in waves of tiles: chunks of one kernel that exchanges and computes.
#pragma once

#include <optional>
#include <vector>

#include "sim/planner/layer/replayed_layer.h"
#include "sim/planner/layer/tiled_kernel.h"
#include "sim/planner/schedule/schedule.h"

namespace moesim {

/// Those of a layer whose products fill them. Throws Unsuitable in training: what casts and sums of
/// weight gradients move is not known of them.
ProductTiles product_tiles(const Chunking& chunking, const LayerWork& work, bool backward);

/// What waves are made by: the schedule's tiles, the columns of an expert's first product, and the
/// multiprocessors of a GPU.
struct WaveShape {
  const Chunking& chunking;
  int columns = 0;
  int sms = 0;
};

/// The waves of a layer. Every GPU computes its experts one after the other, each in tiles of rows.
/// All source ranks have rows in a tile alike: their i-th rows for an expert come before their next
/// ones. A wave has an equal part of a GPU's tiles. There are as many waves as the GPU with the
/// most tiles needs if its multiprocessors compute a tile of rows and columns each at once, but no
/// more than chunks are asked for. Throws Unsuitable if the dispatch sends anything but a row for
/// every choice in one phase.
std::vector<LayerWork> waves_of(const LayerWork& work, const LayerTokens& tokens,
                                const EpGroups& groups, const WaveShape& shape);

/// The results of a layer in so many chunks at most: those of equal numbers of experts with rows,
/// on every GPU one after the other. Throws Unsuitable as waves_of.
std::vector<LayerWork> chunks_of_results(const LayerWork& work, const LayerTokens& tokens,
                                         const EpGroups& groups, int count);

/// [phase] of the explicit rows of a wave or of results; `work` has those of the layer.
void add_wave_rows(LayerWork& work, const LayerTokens& tokens, const EpGroups& groups);

}  // namespace moesim
