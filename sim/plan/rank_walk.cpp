// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/rank_walk.h"

#include <algorithm>
#include <limits>

namespace moesim {
namespace {

/// More choices than a rank has.
constexpr std::int64_t most_counted = std::numeric_limits<std::uint32_t>::max();

}  // namespace

RankWalk::RankWalk(const Assignment& assignment, GpuId source) {
  const int experts = assignment.placement().experts();
  places_.reserve(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts; ++e) {
    const auto first = static_cast<std::uint32_t>(turns_.size());
    for (const Share& share : assignment.shares(source, ExpertId(e))) {
      const auto count = std::min<std::int64_t>(share.count, most_counted);
      singly_ = singly_ && count == 1;
      const auto next = static_cast<std::uint32_t>(turns_.size() + 1);
      turns_.push_back({share.slot, static_cast<std::uint32_t>(count), next, 0});
    }
    turns_.back().after = first;
    for (std::size_t turn = first; turn < turns_.size(); ++turn) {
      turns_[turn].taken_after = turns_[turns_[turn].after].count;
    }
    places_.push_back({first, turns_[first].count});
  }
  if (!singly_) return;
  singles_.reserve(turns_.size());
  singles_now_.reserve(places_.size());
  for (const Turn& turn : turns_) singles_.push_back({turn.slot, turn.after});
  for (const Place& place : places_) singles_now_.push_back(singles_[place.turn]);
}

}  // namespace moesim
