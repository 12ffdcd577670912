// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/rank_walk.h"

namespace moesim {

RankWalk::RankWalk(const Assignment& assignment, GpuId source) {
  const int experts = assignment.placement().experts();
  places_.reserve(static_cast<std::size_t>(experts));
  for (int e = 0; e < experts; ++e) {
    const auto first = static_cast<std::uint32_t>(turns_.size());
    for (const Share& share : assignment.shares(source, ExpertId(e))) {
      turns_.push_back({share.slot, static_cast<std::uint32_t>(turns_.size() + 1), share.count});
    }
    turns_.back().after = first;
    places_.push_back({turns_[first].count, turns_[first].slot, turns_[first].after});
  }
}

}  // namespace moesim
