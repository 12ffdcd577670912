// SPDX-License-Identifier: Apache-2.0
#include "sim/run/turn_times.h"

#include <algorithm>

#include "sim/report/intervals.h"

namespace moesim {
namespace {

TurnPart part_of(const Turn& turn) {
  if (turn.beside) return TurnPart::merged;
  if (turn.work.kind == WorkKind::forward) return TurnPart::forward;
  return turn.work.kind == WorkKind::weight_gradient ? TurnPart::weights : TurnPart::backward;
}

/// Of one GPU, of what is in a window.
TurnTimes times_of(const TurnsOfGpu& gpu, const Timetable& timetable, const Interval& window) {
  TurnTimes times;
  std::vector<Interval> busy, update;
  Seconds before = window.start;
  for (std::size_t t = 0; t < gpu.work.size(); ++t) {
    const auto [begin, end] = within(gpu.work[t], window);
    const Seconds start = std::max(before, begin);
    if (!(start < end)) continue;
    times.of(part_of(timetable[t])) += end - start;
    busy.push_back({start, end});
    before = end;
  }
  busy = united(std::move(busy));
  for (const Interval& each : gpu.update) {
    const Interval part = within(each, window);
    if (part.start < part.end) update.push_back(part);
  }
  times.of(TurnPart::update) = outside(united(std::move(update)), busy);
  times.of(TurnPart::bubble) =
      window.end - window.start - length(busy) - times.of(TurnPart::update);
  return times;
}

}  // namespace

std::vector<TurnTimes> turn_times_by_stage(const Plan& plan, const Timeline& timeline,
                                           const Pipeline& pipeline,
                                           const std::vector<int>& stages) {
  const auto gpus = turns_of_gpus(plan, timeline, turns_by_stage(pipeline), stages);
  return turn_times_by_stage(gpus, timeline.makespan, pipeline, stages);
}

std::vector<TurnTimes> turn_times_by_stage(const std::vector<TurnsOfGpu>& gpus, Seconds makespan,
                                           const Pipeline& pipeline, const std::vector<int>& stages,
                                           const Continued* continued) {
  std::vector<double> gpus_of(static_cast<std::size_t>(pipeline.stages()));
  for (const int stage : stages) {
    if (stage >= 0) ++gpus_of[static_cast<std::size_t>(stage)];
  }
  std::vector<TurnTimes> means(gpus_of.size());
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    if (stages[g] < 0) continue;
    const auto stage = static_cast<std::size_t>(stages[g]);
    const auto add = [&](const Interval& window, int times) {
      const TurnTimes own = times_of(gpus[g], pipeline.of(stages[g]), window);
      for (std::size_t p = 0; p < own.parts.size(); ++p) {
        means[stage].parts[p] += own.parts[p] * (times / gpus_of[stage]);
      }
    };
    add({Seconds(0), makespan}, 1);
    if (continued != nullptr) add(continued->window, continued->times);
  }
  return means;
}

}  // namespace moesim
