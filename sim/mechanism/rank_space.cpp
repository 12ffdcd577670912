// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/rank_space.h"

#include <algorithm>
#include <map>
#include <utility>

namespace moesim {

RankLevel::RankLevel(Communicators groups, const RankLevel* outer, Facts facts)
    : groups_(std::move(groups)), facts_(facts) {
  std::size_t ranks = 0;
  for (const auto& group : groups_) ranks += group.size();
  group_of_.resize(ranks);
  index_of_.resize(ranks);
  std::map<std::pair<int, int>, std::vector<GpuId>> across;  // by outer group and index
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t i = 0; i < groups_[g].size(); ++i) {
      const GpuId rank = groups_[g][i];
      group_of_[rank.index()] = static_cast<int>(g);
      index_of_[rank.index()] = static_cast<int>(i);
      const int from = outer == nullptr ? 0 : outer->group_of(rank);
      across[{from, facts_.equal ? static_cast<int>(i) : 0}].push_back(rank);
    }
  }
  for (auto& entry : across) {
    std::sort(entry.second.begin(), entry.second.end());
    across_.push_back(std::move(entry.second));
  }
}

RankSpace::RankSpace(std::vector<RankLevel> levels, RankLevel hosts, HostFacts facts)
    : levels_(std::move(levels)), hosts_(std::move(hosts)), facts_(facts) {}

RankSpace RankSpace::by_hosts() const {
  std::vector<RankLevel> levels{levels_.front()};
  if (spread() && shared()) levels.push_back(hosts_);
  return {std::move(levels), hosts_, facts_};
}

bool RankSpace::uniform() const {
  return std::all_of(levels_.begin(), levels_.end(),
                     [](const RankLevel& level) { return level.facts().equal; });
}

}  // namespace moesim
