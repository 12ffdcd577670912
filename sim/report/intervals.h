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

/// Puts one behind the others, or makes it part of one of the last two if it begins in that, as two
/// streams take turns: their union is the same.
inline void add_interval(std::vector<Interval>& intervals, const Interval& interval) {
  const std::size_t count = intervals.size();
  for (std::size_t back = 1; back <= 2 && back <= count; ++back) {
    Interval& last = intervals[count - back];
    if (last.start <= interval.start && interval.start <= last.end) {
      last.end = std::max(last.end, interval.end);
      return;
    }
  }
  intervals.push_back(interval);
}

/// Merges intervals that overlap or touch; ascending and disjoint.
std::vector<Interval> united(std::vector<Interval> intervals);

/// Their sum; of disjoint intervals.
Seconds length(const std::vector<Interval>& intervals);

/// Length of `intervals` outside `busy`; both disjoint and ascending.
Seconds outside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy);

/// Length of `intervals` within `busy`; both disjoint and ascending.
Seconds inside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy);

/// When the compute stream of every GPU was busy; ascending, disjoint as it is one stream.
GpuIntervals compute_intervals(const Plan& plan, const Timeline& timeline);

}  // namespace moesim
