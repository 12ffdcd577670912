// SPDX-License-Identifier: Apache-2.0
// Capacity of a rank: its experts together take so many rows, what exceeds them is dropped. So
// buffers and graphs have one shape without waiting for the host (NVIDIA/Megatron-LM PR 6022,
// expert-rank capacity factor).
#include <cmath>

#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/routing/rewrite.h"
#include "sim/mechanism/routing/serving_gpus.h"

namespace moesim {
namespace {

class RankCapacity final : public Routing {
 public:
  RankCapacity(const RoutingContext& context, double factor)
      : groups_(context.groups), factor_(factor) {}
  bool after_placement() const override { return true; }

  /// Tokens are served rank by rank, in their order: who is last is dropped, an interpretation.
  RoutedTokens apply(const RecordedRouting& recorded, RoutingChange& change) override {
    ids_.copy(recorded);
    count_rooms(recorded);
    ServingGpus serving(*recorded.placed);
    for_each_batch_token(recorded.batch, [&](const BatchToken& token) {
      serving.enter(token.rank);
      for (std::uint16_t& id : ids_.row(token.at)) {
        std::int64_t& room = rooms_[serving.gpus()[id].index()];
        if (room > 0) {
          --room;
        } else {
          id = IdRows::dropped;
        }
      }
      serving.serve(ids_.row(token.at));
    });
    ids_.count_change(recorded, change);
    return ids_.view();
  }

 private:
  /// The mean of a rank's EP group times the factor, rounded up, for the groups that take part.
  void count_rooms(const RecordedRouting& recorded) {
    rooms_.clear();
    const auto ranks = std::ssize(recorded.batch.ranks);
    for (std::int64_t first = 0; first < ranks; first += groups_.size()) {
      std::int64_t tokens = 0;
      for (std::int64_t rank = first; rank < first + groups_.size(); ++rank) {
        tokens += tokens_of(recorded.batch.ranks[static_cast<std::size_t>(rank)]);
      }
      const double mean = static_cast<double>(tokens * ids_.top_k()) / groups_.size();
      const auto room = static_cast<std::int64_t>(std::ceil(factor_ * mean));
      rooms_.insert(rooms_.end(), static_cast<std::size_t>(groups_.size()), room);
    }
  }

  EpGroups groups_;
  double factor_;
  RewrittenIds ids_;
  std::vector<std::int64_t> rooms_;  // [gpu] rows that it still takes
};

}  // namespace

// factor: rows of a rank over the mean of its EP group (1.25).
RoutingMaker read_rank_capacity(const YamlMap& params) {
  const double factor = params.number("factor", {0.01, 1000}, 1.25);
  return [factor](const RoutingContext& context) {
    return std::make_unique<RankCapacity>(context, factor);
  };
}

}  // namespace moesim
