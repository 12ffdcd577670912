// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/rank_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace moesim {

void RankPlaces::list(int rank, int group, const std::string& host, const std::string& address) {
  const bool is_new = listed_.try_emplace(rank, Place{group, host}).second;
  repeated_ = repeated_ || !is_new;
  if (!is_new || address.empty()) return;
  const bool own = gpus_.insert(fmt::format("{} {} {}", group, host, address)).second;
  share_a_gpu_ = share_a_gpu_ || !own;
}

void RankPlaces::tell(int rank, int ranks, const std::string& host) {
  told_[rank] = host;
  told_ranks_ = std::max(told_ranks_, ranks);
}

int RankPlaces::ranks() const {
  if (listed_.empty()) return told_ranks_;
  const int group = listed_.begin()->second.group;
  const auto same = [&](const auto& one) { return one.second.group == group; };
  if (!std::ranges::all_of(listed_, same)) {
    return static_cast<int>(std::ranges::count_if(listed_, same));
  }
  const int processes = listed_.rbegin()->first / local_ + 1;
  return std::max(processes * local_, told_ranks_);
}

std::map<int, std::string> RankPlaces::placed() const {
  std::map<int, std::string> result;
  const int group = listed_.empty() ? 0 : listed_.begin()->second.group;
  for (const auto& [rank, place] : listed_) {
    if (place.group == group) result.emplace(rank / local_, place.host);
  }
  for (const auto& [rank, host] : told_) result.emplace(rank / local_, host);
  return result;
}

std::optional<int> RankPlaces::hosts() const {
  const std::map<int, std::string> known = placed();
  if (known.empty() || (share_a_gpu_ && gpus_.size() > 1)) return std::nullopt;
  std::set<std::string> names;
  const auto one_group = [&](const auto& one) {
    return one.second.group == listed_.begin()->second.group;
  };
  const bool all = std::ranges::all_of(listed_, one_group);
  int next = 0;
  const std::string* before = nullptr;
  for (const auto& [process, host] : known) {
    // Processes that the log leaves out are on a host if those before and after them are.
    const bool gap = all && process != next && (before == nullptr || *before != host);
    if (gap) return std::nullopt;
    names.insert(host);
    before = &host;
    next = process + 1;
  }
  if (all && next * local_ < ranks()) return std::nullopt;
  return static_cast<int>(names.size());
}

}  // namespace moesim
