// SPDX-License-Identifier: Apache-2.0
#include "sim/pipeline/layer/chunked_layer.h"

namespace moesim {
namespace {

class ChunkedOrder {
 public:
  using Places = std::vector<int>;  // [chunk] place in the list, empty: waits for nothing

  int add(ChunkWork work, int chunk, const Places& after) {
    pieces_.push_back({.work = work, .chunk = chunk, .after = {}});
    if (!after.empty()) pieces_.back().after = {after[static_cast<std::size_t>(chunk)]};
    return static_cast<int>(pieces_.size()) - 1;
  }
  /// The same for each of so many chunks.
  Places add_all(ChunkWork work, int chunks, const Places& after = {}) {
    Places places;
    for (int chunk = 0; chunk < chunks; ++chunk) places.push_back(add(work, chunk, after));
    return places;
  }
  std::vector<ChunkPiece> pieces() && { return std::move(pieces_); }

 private:
  std::vector<ChunkPiece> pieces_;
};

}  // namespace

LayerLane lane_of(ChunkWork work) {
  switch (work) {
    case ChunkWork::dispatch:
    case ChunkWork::combine:
    case ChunkWork::all_reduce:
    case ChunkWork::broadcast_shadow:
    case ChunkWork::reduce_shadow:
      return LayerLane::exchange;
    case ChunkWork::all_gather:
    case ChunkWork::reduce_scatter:
      return LayerLane::node_exchange;
    default:
      return LayerLane::compute;
  }
}

std::vector<ChunkPiece> tutel_order(int chunks) {
  ChunkedOrder order;
  const auto dispatched = order.add_all(ChunkWork::dispatch, chunks);
  const auto computed = order.add_all(ChunkWork::experts, chunks, dispatched);
  order.add_all(ChunkWork::combine, chunks, computed);
  return std::move(order).pieces();
}

std::vector<ChunkPiece> schemoe_order(int chunks) {
  ChunkedOrder order;
  const auto compressed = order.add_all(ChunkWork::compress_dispatch, chunks);
  const auto dispatched = order.add_all(ChunkWork::dispatch, chunks, compressed);
  ChunkedOrder::Places decompressed, computed, ready;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    decompressed.push_back(order.add(ChunkWork::decompress_dispatch, chunk, dispatched));
    computed.push_back(order.add(ChunkWork::experts, chunk, decompressed));
    ready.push_back(order.add(ChunkWork::compress_combine, chunk, computed));
  }
  const auto combined = order.add_all(ChunkWork::combine, chunks, ready);
  order.add_all(ChunkWork::decompress_combine, chunks, combined);
  return std::move(order).pieces();
}

std::vector<ChunkPiece> fsmoe_order(int chunks, bool all_reduce) {
  ChunkedOrder order;
  const auto dispatched = order.add_all(ChunkWork::dispatch, chunks);
  if (all_reduce) order.add(ChunkWork::all_reduce, 0, {});
  const auto gathered = order.add_all(ChunkWork::all_gather, chunks, dispatched);
  const auto computed = order.add_all(ChunkWork::experts, chunks, gathered);
  const auto scattered = order.add_all(ChunkWork::reduce_scatter, chunks, computed);
  order.add_all(ChunkWork::combine, chunks, scattered);
  return std::move(order).pieces();
}

std::vector<ChunkPiece> smart_forward_order(int groups, int shadows) {
  ChunkedOrder order;
  const auto dispatched = order.add_all(ChunkWork::dispatch, groups);
  const auto broadcast = order.add_all(ChunkWork::broadcast_shadow, shadows);
  const auto computed = order.add_all(ChunkWork::experts, groups, dispatched);
  order.add_all(ChunkWork::shadow, shadows, broadcast);
  order.add_all(ChunkWork::combine, groups, computed);
  return std::move(order).pieces();
}

std::vector<ChunkPiece> smart_backward_order(int groups, int shadows) {
  ChunkedOrder order;
  const auto dispatched = order.add_all(ChunkWork::dispatch, groups);
  const auto shadowed = order.add_all(ChunkWork::shadow, shadows);
  order.add_all(ChunkWork::reduce_shadow, shadows, shadowed);
  const auto computed = order.add_all(ChunkWork::experts, groups, dispatched);
  order.add_all(ChunkWork::combine, groups, computed);
  return std::move(order).pieces();
}

}  // namespace moesim
