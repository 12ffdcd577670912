// SPDX-License-Identifier: Apache-2.0
// Rewriting the choices of a layer: what routing mechanisms that alter them share.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/types.h"
#include "sim/mechanism/routing.h"

namespace moesim {

/// A token of a batch. A batch that plays a step repeatedly may hold a recorded token several
/// times.
struct BatchToken {
  GpuId rank;
  std::int64_t recorded = 0;  // its number in the recorded step
  std::int64_t at = 0;        // its number in the batch, rank by rank
};

/// Calls visit(BatchToken) for the tokens of one rank, whose first one has the number `at` in the
/// batch; returns the number that follows its last one.
template <class Visit>
std::int64_t for_each_rank_token(const Batch& batch, GpuId rank, std::int64_t at, Visit visit) {
  for (const TokenRun& run : batch.ranks[rank.index()]) {
    for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
      visit(BatchToken{rank, t, at++});
    }
  }
  return at;
}

/// The same for every token of a batch, rank by rank.
template <class Visit>
void for_each_batch_token(const Batch& batch, Visit visit) {
  std::int64_t at = 0;
  for (std::size_t rank = 0; rank < batch.ranks.size(); ++rank) {
    at = for_each_rank_token(batch, GpuId(static_cast<std::int64_t>(rank)), at, visit);
  }
}

/// The choices of a batch's tokens as ids of 2 bytes, which may be dropped. Tokens have their
/// numbers in the batch, so that a recorded token that is there twice may change in two ways.
class RewrittenIds {
 public:
  /// Copies the recorded ids of the batch's tokens.
  void copy(const RecordedRouting& recorded);
  std::span<std::uint16_t> row(std::int64_t at) {
    return {ids_.data() + at * top_k_, static_cast<std::size_t>(top_k_)};
  }
  /// Counts dropped and replaced choices over the batch's tokens. An expert that moved to another
  /// place of its row is not replaced.
  void count_change(const RecordedRouting& recorded, RoutingChange& change);
  int top_k() const { return top_k_; }
  RoutedTokens view() const { return {batch_, {ids_.data(), 2, top_k_, batch_.tokens()}}; }

 private:
  std::vector<std::uint16_t> ids_;  // [token][k]
  int top_k_ = 0;
  Batch batch_;  // one run per rank
};

/// The places 0..top_k-1 of a token's choices by falling gate weight (the lower place on ties). A
/// recorded row has no order of its own; without weights it is taken as it is, which is our
/// reading.
void rank_choices(const RecordedRouting& recorded, std::int64_t token, std::vector<int>& places);

/// The experts by falling choices of the batch's tokens, ties by lowest id.
std::vector<ExpertId> most_chosen(const RecordedRouting& recorded, int experts);

}  // namespace moesim
