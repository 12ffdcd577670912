// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/timeline.h"

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <utility>

#include "sim/base/large_memory.h"

namespace moesim {

namespace {

/// Delays of chains of kernels, those of equal chains once.
class Delays {
 public:
  explicit Delays(std::vector<Seconds>& list) : list_(list) {}

  /// What ends so long after it has started at these times.
  TimesOfOp after(const TimesOfOp& starts, const Intervals::Follows& op, std::size_t members) {
    TimesOfOp ends = starts;
    ends.later_by_member |= op.takes_by_member;
    const auto [known, fresh] =
        known_.try_emplace({starts.later, op.takes}, static_cast<std::uint32_t>(list_.size()));
    ends.later = known->second;
    if (!fresh) return ends;
    for (std::size_t m = 0; m < (ends.later_by_member ? members : 1); ++m) {
      list_.push_back(list_[starts.delay(m)] + op.takes[op.takes_by_member ? m : 0]);
    }
    return ends;
  }

 private:
  std::vector<Seconds>& list_;
  using Key = std::pair<std::uint32_t, const Seconds*>;
  struct HashOfKey {
    std::size_t operator()(const Key& key) const {
      return std::hash<const Seconds*>()(key.second) ^
             (key.first * std::size_t{0x9e3779b97f4a7c15});
    }
  };
  std::unordered_map<Key, std::uint32_t, HashOfKey> known_;
};

}  // namespace

void Intervals::add_row(std::span<const Interval> row) {
  const std::size_t first = times_.size();
  TimesOfRow& added = rows_.emplace_back();
  added.members = row.size();
  added.starts.first = first;
  added.ends.first = first + row.size();
  for (const Interval& interval : row) times_.push_back(interval.start);
  for (const Interval& interval : row) times_.push_back(interval.end);
}

void Intervals::add_ops(const Plan& plan, const std::vector<Follows>& follows) {
  std::size_t times = 0;
  const auto take = [&](std::size_t count) {
    TimesOfOp taken;
    taken.first = times;
    times += count;
    return taken;
  };
  Delays delays(delays_);
  rows_.reserve(plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    const auto& [before, other, common_end, takes, by_member] = follows[i];
    TimesOfRow row;
    row.members = op.group.size();
    row.own_starts = before.value < 0;
    row.two_starts = other.value >= 0;
    row.starts = row.own_starts ? take(row.members) : rows_[before.index()].ends;
    if (row.two_starts) row.starts_2 = rows_[other.index()].ends;
    if (takes != nullptr) {
      row.ends = delays.after(row.starts, follows[i], row.members);
    } else {
      row.ends = take(common_end ? op.collectives() : row.members);
      row.ends.common = common_end;
      row.ends.apart = common_end ? op.apart() : nullptr;
    }
    rows_.push_back(row);
  }
  times_.reserve(times);
  expect_to_fill(times_.data(), times);
  times_.resize(times);
}

bool Intervals::operator==(const Intervals& other) const {
  if (size() != other.size()) return false;
  for (std::size_t op = 0; op < size(); ++op) {
    const OpIntervals own = (*this)[op], its = other[op];
    if (!std::equal(own.begin(), own.end(), its.begin(), its.end())) return false;
  }
  return true;
}

}  // namespace moesim
