// SPDX-License-Identifier: Apache-2.0
// Rewriting the choices of a layer: what routing mechanisms that alter them share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/types.h"
#include "sim/policy/routing.h"

namespace moesim {

/// Calls visit(source rank, recorded token) for every token of a batch, rank by rank. A batch that
/// plays a step repeatedly may hold a recorded token several times.
template <class Visit>
void for_each_batch_token(const Batch& batch, Visit visit) {
  for (std::size_t rank = 0; rank < batch.ranks.size(); ++rank) {
    for (const TokenRun& run : batch.ranks[rank]) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        visit(GpuId(static_cast<std::int64_t>(rank)), t);
      }
    }
  }
}

/// A layer's choices as ids of 2 bytes, which may be dropped.
class RewrittenIds {
 public:
  /// Copies the recorded ids of the batch's tokens, the others are left as they are.
  void copy(const RecordedRouting& recorded);
  std::span<std::uint16_t> row(std::int64_t token) {
    return {ids_.data() + token * top_k_, static_cast<std::size_t>(top_k_)};
  }
  /// Counts dropped and replaced choices over the batch's tokens. An expert that moved to another
  /// place of its row is not replaced.
  void count_change(const RecordedRouting& recorded, RoutingChange& change);
  IdRows view() const { return {ids_.data(), 2, top_k_, tokens_}; }

 private:
  std::vector<std::uint16_t> ids_;  // [token][k]
  int top_k_ = 0;
  std::int64_t tokens_ = 0;
};

/// The places 0..top_k-1 of a token's choices by falling gate weight (the lower place on ties). A
/// recorded row has no order of its own; without weights it is taken as it stands, which is our
/// reading.
void rank_choices(const RecordedRouting& recorded, std::int64_t token, std::vector<int>& places);

/// The experts by falling choices of the batch's tokens, ties by lowest id.
std::vector<ExpertId> most_chosen(const RecordedRouting& recorded, int experts);

}  // namespace moesim
