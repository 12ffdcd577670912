// SPDX-License-Identifier: Apache-2.0
// When GPUs were busy: unions of intervals and what is outside them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Intervals of every GPU: [gpu].
using GpuIntervals = std::vector<std::vector<Interval>>;

/// Those of an op's members, worked out once for a measure that looks at them again and again.
void read_times(const OpIntervals& op, std::vector<Interval>& times);
/// From the first start to the last end.
Interval span_of(const std::vector<Interval>& times);

/// Makes an interval part of one that it begins in, if it does.
inline bool extend_by(Interval& last, const Interval& interval) {
  if (interval.start < last.start || last.end < interval.start) return false;
  last.end = std::max(last.end, interval.end);
  return true;
}

/// Puts one behind the others, or makes it part of one of the last two if it begins in that, as two
/// streams take turns: their union is the same.
inline void add_interval(std::vector<Interval>& intervals, const Interval& interval) {
  const std::size_t count = intervals.size();
  if (count > 0 && extend_by(intervals[count - 1], interval)) return;
  if (count > 1 && extend_by(intervals[count - 2], interval)) return;
  intervals.push_back(interval);
}

/// Intervals of one op after the other, which are put behind those of their GPUs together as long
/// as each continues the one before on all of its GPUs.
class IntervalRun {
 public:
  /// `times`: of the group; those that are empty are left out.
  void add(GpuIntervals& lists, const Group& group, const std::vector<Interval>& times);
  /// Puts what is not there yet into the lists of the GPUs.
  void settle(GpuIntervals& lists);

 private:
  bool goes_on(const Group& group, const std::vector<Interval>& times) const;

  Group group_;
  std::vector<Interval> run_;  // [member]
};

/// Merges intervals that overlap or touch; ascending and disjoint.
std::vector<Interval> united(std::vector<Interval> intervals);

/// The union of two lists that are ascending and disjoint, as it is again: nothing is sorted.
std::vector<Interval> union_of(const std::vector<Interval>& a, const std::vector<Interval>& b);

/// Their sum; of disjoint intervals.
Seconds length(const std::vector<Interval>& intervals);

/// Length of `intervals` outside `busy`; both disjoint and ascending.
Seconds outside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy);

/// Length of `intervals` within `busy`; both disjoint and ascending.
Seconds inside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy);

/// When the compute stream of every GPU was busy; ascending, disjoint as it is one stream.
GpuIntervals compute_intervals(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
