// SPDX-License-Identifier: Apache-2.0
#include "sim/report/intervals.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

namespace moesim {
namespace {

/// Not a function, which sorting would call by its address.
constexpr auto starts_earlier = [](const Interval& a, const Interval& b) {
  return a.start < b.start;
};
bool ends_before(const Interval& a, Seconds time) { return a.end <= time; }

/// Merges runs that ascend: ops of one GPU and stream are in order unless passes are merged, and so
/// are unions that are put together.
void sort_by_start(std::vector<Interval>& intervals) {
  std::vector<std::size_t> runs = {0};  // where each begins
  for (std::size_t i = 1; i < intervals.size(); ++i) {
    if (starts_earlier(intervals[i], intervals[i - 1])) runs.push_back(i);
  }
  if (runs.size() > intervals.size() / 4) {
    std::sort(intervals.begin(), intervals.end(), starts_earlier);
    return;
  }
  const auto at = [&](std::size_t run) {
    return intervals.begin() +
           static_cast<std::ptrdiff_t>(run < runs.size() ? runs[run] : intervals.size());
  };
  while (runs.size() > 1) {
    std::vector<std::size_t> longer;
    for (std::size_t run = 0; run < runs.size(); run += 2) {
      longer.push_back(runs[run]);
      std::inplace_merge(at(run), at(run + 1), at(run + 2), starts_earlier);
    }
    runs = std::move(longer);
  }
}

}  // namespace

void read_times(const OpIntervals& op, std::vector<Interval>& times) {
  times.resize(op.size());
  for (std::size_t m = 0; m < times.size(); ++m) times[m] = {op.start(m), op.end(m)};
}

Interval span_of(const std::vector<Interval>& times) {
  Interval span{Seconds(std::numeric_limits<double>::infinity()), Seconds(0)};
  for (const auto& [start, end] : times) {
    span.start = std::min(span.start, start);
    span.end = std::max(span.end, end);
  }
  return span;
}

bool IntervalRun::goes_on(const Group& group, const std::vector<Interval>& times) const {
  if (!group.shares_list(group_)) return false;
  bool all = true;
  for (std::size_t m = 0; m < times.size(); ++m) {
    const auto& [start, end] = times[m];
    all &= (start >= end) | ((run_[m].start <= start) & (start <= run_[m].end));
  }
  return all;
}

void IntervalRun::add(GpuIntervals& lists, const Group& group, const std::vector<Interval>& times) {
  if (!goes_on(group, times)) {
    settle(lists);
    group_ = group;
    run_ = times;
    return;
  }
  for (std::size_t m = 0; m < times.size(); ++m) {
    const auto& [start, end] = times[m];
    if (start < end) run_[m].end = std::max(run_[m].end, end);
  }
}

void IntervalRun::settle(GpuIntervals& lists) {
  if (run_.empty()) return;
  const std::vector<GpuId>& gpus = group_.list();
  for (std::size_t m = 0; m < run_.size(); ++m) {
    if (run_[m].start < run_[m].end) add_interval(lists[gpus[m].index()], run_[m]);
  }
  group_ = Group();
  run_.clear();
}

std::vector<Interval> united(std::vector<Interval> intervals) {
  sort_by_start(intervals);
  std::vector<Interval> result;
  result.reserve(intervals.size());
  for (const Interval& i : intervals) add_interval(result, i);
  return result;
}

std::vector<Interval> union_of(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  result.reserve(a.size() + b.size());
  for (auto i = a.begin(), j = b.begin(); i != a.end() || j != b.end();) {
    const bool from_a = j == b.end() || (i != a.end() && i->start <= j->start);
    add_interval(result, from_a ? *i++ : *j++);
  }
  return result;
}

Seconds length(const std::vector<Interval>& intervals) {
  Seconds sum;
  for (const Interval& i : intervals) sum += i.end - i.start;
  return sum;
}

Seconds outside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy) {
  Seconds sum;  // of gaps: a difference of sums would leave rounding errors if there is nothing
  for (const Interval& interval : intervals) {
    Seconds at = interval.start;
    auto it = std::lower_bound(busy.begin(), busy.end(), at, ends_before);
    for (; it != busy.end() && it->start < interval.end; ++it) {
      if (at < it->start) sum += it->start - at;
      at = std::max(at, it->end);
    }
    if (at < interval.end) sum += interval.end - at;
  }
  return sum;
}

Seconds inside(const std::vector<Interval>& intervals, const std::vector<Interval>& busy) {
  Seconds sum;
  for (const Interval& interval : intervals) {
    auto it = std::lower_bound(busy.begin(), busy.end(), interval.start, ends_before);
    for (; it != busy.end() && it->start < interval.end; ++it) {
      sum += std::min(it->end, interval.end) - std::max(it->start, interval.start);
    }
  }
  return sum;
}

GpuIntervals compute_intervals(const Plan& plan, const Timeline& timeline) {
  GpuIntervals busy(static_cast<std::size_t>(plan.gpus));
  IntervalRun run;
  std::vector<Interval> times;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.kernels() == nullptr || op.stream != Stream::compute) continue;
    read_times(timeline.ops[i], times);
    run.add(busy, op.group, times);
  }
  run.settle(busy);
  for (auto& intervals : busy) sort_by_start(intervals);
  return busy;
}

}  // namespace moesim
