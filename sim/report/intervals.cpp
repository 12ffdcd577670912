// SPDX-License-Identifier: Apache-2.0
#include "sim/report/intervals.h"

#include <algorithm>

namespace moesim {
namespace {

bool starts_earlier(const Interval& a, const Interval& b) { return a.start < b.start; }

}  // namespace

std::vector<Interval> united(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), starts_earlier);
  std::vector<Interval> result;
  for (const Interval& i : intervals) {
    if (result.empty() || result.back().end < i.start) {
      result.push_back(i);
    } else {
      result.back().end = std::max(result.back().end, i.end);
    }
  }
  return result;
}

Seconds length(const std::vector<Interval>& intervals) {
  Seconds sum;
  for (const Interval& i : intervals) sum += i.end - i.start;
  return sum;
}

Seconds outside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy) {
  Seconds sum;
  for (const Interval& interval : intervals) {
    double inside = 0;
    auto it = std::lower_bound(busy.begin(), busy.end(), interval.start,
                               [](const Interval& b, Seconds t) { return b.end <= t; });
    for (; it != busy.end() && it->start < interval.end; ++it) {
      inside += std::min(it->end, interval.end).value - std::max(it->start, interval.start).value;
    }
    // Sums of parts may exceed the whole by a rounding error, which is no negative time.
    sum += Seconds(std::max(0.0, interval.end.value - interval.start.value - inside));
  }
  return sum;
}

GpuIntervals compute_intervals(const Plan& plan, const Timeline& timeline) {
  GpuIntervals busy(static_cast<std::size_t>(plan.gpus));
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Compute* compute = plan.ops[i].compute();
    if (compute == nullptr || plan.ops[i].lane != Lane::compute) continue;
    busy[compute->gpu.index()].push_back(timeline.ops[i][0]);
  }
  for (auto& intervals : busy) std::sort(intervals.begin(), intervals.end(), starts_earlier);
  return busy;
}

}  // namespace moesim
