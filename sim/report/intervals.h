// SPDX-License-Identifier: Apache-2.0
// When GPUs were busy: unions of intervals and what lies outside them.
#pragma once

#include <vector>

#include "sim/plan/plan.h"
#include "sim/plan/timeline.h"

namespace moesim {

/// Intervals of every GPU: [gpu].
using GpuIntervals = std::vector<std::vector<Interval>>;

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
