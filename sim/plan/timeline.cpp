// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/timeline.h"

#include <algorithm>

#include "sim/base/large_memory.h"

namespace moesim {

void Intervals::add_row(std::span<const Interval> row) {
  const std::size_t first = times_.size();
  rows_.push_back({row.size(), {.first = first}, {.first = first + row.size()}});
  for (const Interval& interval : row) times_.push_back(interval.start);
  for (const Interval& interval : row) times_.push_back(interval.end);
}

void Intervals::add_ops(const Plan& plan, const std::vector<Shared>& shared) {
  std::size_t times = 0;
  const auto take = [&](std::size_t count) {
    const TimesOfOp taken{.first = times};
    times += count;
    return taken;
  };
  rows_.reserve(plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    Row row{op.group.size(), {}, {}};
    const OpId before = shared[i].starts_with_end_of;
    row.starts = before.value >= 0 ? rows_[before.index()].ends : take(row.members);
    row.ends = take(shared[i].common_end ? op.collectives() : row.members);
    if (shared[i].common_end) {
      row.ends.common = true;
      row.ends.apart = op.apart();
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
