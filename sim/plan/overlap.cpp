// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/overlap.h"

#include <algorithm>
#include <cmath>

#include "sim/plan/check.h"

namespace moesim {
namespace {

constexpr int most_rounds = 12;
constexpr double settled = 1e-6;  // of the makespan

/// What runs on each GPU: intervals that ascend and do not touch.
using Busy = std::vector<std::vector<Interval>>;

void join(std::vector<Interval>& intervals) {
  std::ranges::sort(intervals, {}, &Interval::start);
  std::size_t kept = 0;
  for (const Interval& next : intervals) {
    if (kept > 0 && next.start <= intervals[kept - 1].end) {
      intervals[kept - 1].end = std::max(intervals[kept - 1].end, next.end);
    } else {
      intervals[kept++] = next;
    }
  }
  intervals.resize(kept);
}

bool slows(const Op& op) {
  if (const Exchange* exchange = op.exchange()) return exchange->traffic.off_diagonal() > Bytes(0);
  return op.lane == Lane::compute && !std::holds_alternative<HostWork>(op.compute()->kernel);
}

Busy busy_with(bool exchanges, const Plan& plan, const Timeline& timeline) {
  Busy busy(static_cast<std::size_t>(plan.gpus));
  for (std::size_t id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    if ((op.exchange() != nullptr) != exchanges || !slows(op)) continue;
    const auto gpus = gpus_of(op);
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if (timeline.ops[id][i].start < timeline.ops[id][i].end) {
        busy[gpus[i].index()].push_back(timeline.ops[id][i]);
      }
    }
  }
  for (auto& intervals : busy) join(intervals);
  return busy;
}

/// What `work` from `start` on takes longer when each second within the intervals does 1 / factor
/// seconds of it.
Seconds delay(Seconds start, Seconds work, const std::vector<Interval>& intervals, double factor) {
  if (factor <= 1) return Seconds(0);
  Seconds now = start, left = work;
  for (const Interval& slow : intervals) {
    if (slow.end <= now) continue;
    const Seconds free = std::max(Seconds(0), slow.start - now);
    if (free >= left) break;
    left -= free;
    now += free;
    const Seconds within = std::min(left, (slow.end - now) * (1 / factor));
    left -= within;
    now += within * factor;
    if (left.value <= 0) break;
  }
  return std::max(Seconds(0), now + left - start - work);
}

}  // namespace

Delays delays_in(const Plan& plan, const GpuModels& gpus, const Timeline& timeline,
                 const Delays& delays) {
  const Busy exchanging = busy_with(true, plan, timeline);
  const Busy computing = busy_with(false, plan, timeline);
  Delays result(plan.ops.size());
  for (std::size_t id = 0; id < plan.ops.size(); ++id) {
    const Op& op = plan.ops[id];
    if (!slows(op)) continue;
    Seconds start(0);
    for (const Interval& interval : timeline.ops[id]) start = std::max(start, interval.start);
    const Seconds before = delays.empty() ? Seconds(0) : delays[id];
    const Seconds work = timeline.ops[id].front().end - start - before;
    for (const GpuId gpu : gpus_of(op)) {
      const Overlap& factors = gpus[gpu.index()]->overlap;
      const bool kernel = op.compute() != nullptr;
      result[id] =
          std::max(result[id], delay(start, work, (kernel ? exchanging : computing)[gpu.index()],
                                     kernel ? factors.compute : factors.communication));
    }
  }
  return result;
}

Timeline with_overlap(const Plan& plan, const GpuModels& gpus,
                      const std::function<Timeline(const Delays&)>& simulate) {
  Delays delays;
  Timeline timeline = simulate(delays);
  if (std::ranges::none_of(gpus, [](const auto& gpu) { return gpu->overlap.any(); })) {
    return timeline;
  }
  for (int round = 0; round < most_rounds; ++round) {
    const Seconds before = timeline.makespan;
    delays = delays_in(plan, gpus, timeline, delays);
    timeline = simulate(delays);
    const double change = std::abs((timeline.makespan - before).value);
    if (change <= settled * timeline.makespan.value) break;
  }
  return timeline;
}

}  // namespace moesim
