// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/pipeline/ideal_times.h"

#include <algorithm>

namespace moesim {

Seconds TurnCosts::of(const Turn& turn) const {
  if (turn.beside) return merged;
  switch (turn.work.kind) {
    case WorkKind::forward:
      return forward;
    case WorkKind::input_gradient:
      return input_gradient;
    case WorkKind::weight_gradient:
      return weight_gradient;
    case WorkKind::backward:
      break;
  }
  return input_gradient + weight_gradient;
}

IdealTimes ideal_times(const Pipeline& pipeline, const TurnCosts& costs) {
  IdealTimes times;
  times.turns.resize(static_cast<std::size_t>(pipeline.stages()));
  std::vector<Seconds> busy(times.turns.size());
  for (const TurnAt at : pipeline.order()) {
    const auto stage = static_cast<std::size_t>(at.stage);
    std::vector<TurnSpan>& mine = times.turns[stage];
    Seconds start = mine.empty() ? Seconds() : mine.back().end;
    for (const TurnAt input : pipeline.inputs(at)) {
      const auto& theirs = times.turns[static_cast<std::size_t>(input.stage)];
      start = std::max(start, theirs[static_cast<std::size_t>(input.turn)].end);
    }
    const Seconds cost = costs.of(pipeline.at(at));
    mine.push_back({.start = start, .end = start + cost});
    busy[stage] += cost;
    times.makespan = std::max(times.makespan, mine.back().end);
  }
  for (const Seconds stage_busy : busy) times.bubble.push_back(times.makespan - stage_busy);
  return times;
}

std::vector<int> live_activations(const Timetable& timetable) {
  std::vector<int> live;
  int held = 0;
  for (const Turn& turn : timetable) {
    const bool starts = turn.work.kind == WorkKind::forward;
    const bool ends = turn.beside || turn.work.kind == WorkKind::backward ||
                      turn.work.kind == WorkKind::weight_gradient;
    if (starts) ++held;
    live.push_back(held);
    if (ends) --held;
  }
  return live;
}

}  // namespace moesim
