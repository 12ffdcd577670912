// SPDX-License-Identifier: Apache-2.0
// When GPUs were busy: unions of intervals and what is outside them.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Intervals of every GPU: [gpu].
using GpuIntervals = std::vector<std::vector<Interval>>;

/// Puts one behind the others, as part of the last if it begins in that: their union is the same.
inline void add_interval(std::vector<Interval>& intervals, const Interval& interval) {
  if (!intervals.empty() && intervals.back().start <= interval.start &&
      interval.start <= intervals.back().end) {
    intervals.back().end = std::max(intervals.back().end, interval.end);
  } else {
    intervals.push_back(interval);
  }
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
