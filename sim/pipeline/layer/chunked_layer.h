// SPDX-License-Identifier: Apache-2.0
// One MoE layer in chunks of its tokens: while the experts compute one chunk, others travel.
#pragma once

#include <vector>

#include "sim/pipeline/layer/lanes.h"

namespace moesim {

enum class ChunkWork {
  dispatch,
  experts,
  combine,
  // ScheMoE compresses what travels.
  compress_dispatch,
  decompress_dispatch,
  compress_combine,
  decompress_combine,
  // FSMoE shards experts within a node.
  all_gather,
  reduce_scatter,
  all_reduce,  // of dense gradients, between the exchanges of the backward pass
  // FasterMoE computes shadowed experts on every GPU's own tokens; `chunk` is the shadow.
  broadcast_shadow,
  shadow,
  reduce_shadow,
};

LayerLane lane_of(ChunkWork work);

struct ChunkPiece {
  ChunkWork work = ChunkWork::dispatch;
  int chunk = 0;
  std::vector<int> after = {};  // pieces whose results it needs, by their place in the list
  bool operator==(const ChunkPiece&) const = default;
};

/// Tutel (arXiv 2206.03382): all dispatches, all experts, all combines.
std::vector<ChunkPiece> tutel_order(int chunks);

/// ScheMoE's OptSche (EuroSys 2024): all compressions first, all decompressions last, and between
/// them the experts of a chunk between their own decompression and compression.
std::vector<ChunkPiece> schemoe_order(int chunks);

/// FSMoE (arXiv 2501.10714), with lanes for exchanges between and within nodes; all AllGathers come
/// before the first ReduceScatter. `all_reduce`: between the last dispatch and the first combine.
std::vector<ChunkPiece> fsmoe_order(int chunks, bool all_reduce);

/// FasterMoE's smart schedule (PPoPP 2022; laekov/fastmoe, cuda/fastermoe/smart_schedule.h): chunk
/// j is what a group of ranks exchanges with one partner (smart_partners); `groups` chunks. Shadows
/// are broadcast behind the dispatches and computed last; in the backward pass they are computed
/// first and their gradients reduced ahead of the combines.
std::vector<ChunkPiece> smart_forward_order(int groups, int shadows);
std::vector<ChunkPiece> smart_backward_order(int groups, int shadows);
/// To which group `group` sends in dispatch `step`, and from which it receives; combines go the
/// other way. As in the code; the paper mirrors it.
struct SmartPartners {
  int to = 0, from = 0;
};
constexpr SmartPartners smart_partners(int group, int step, int groups) {
  return {.to = (group + step) % groups, .from = (group + groups - step) % groups};
}

}  // namespace moesim
