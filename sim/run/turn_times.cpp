// SPDX-License-Identifier: Apache-2.0
#include "sim/run/turn_times.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "sim/report/intervals.h"
#include "sim/report/spans.h"

namespace moesim {
namespace {

using WorkKey = std::tuple<WorkKind, int, int>;  // microbatch, chunk

/// The turns of a stage by the works that they do.
class StageTurns {
 public:
  explicit StageTurns(const Timetable& timetable) {
    for (std::size_t t = 0; t < timetable.size(); ++t) {
      add(timetable[t].work, t);
      if (timetable[t].beside) add(*timetable[t].beside, t);
      parts_.push_back(part_of(timetable[t]));
    }
  }

  std::size_t size() const { return parts_.size(); }
  TurnPart part(std::size_t turn) const { return parts_[turn]; }

  /// The turn that an op belongs to; none of what is outside all passes.
  std::optional<std::size_t> turn_of(const OpKey& key) const {
    const bool back = key.pass == Pass::backward || key.role == Role::recompute;
    if (!back) return find(WorkKind::forward, key);
    if (key.role == Role::wgrad) {
      if (const auto apart = find(WorkKind::weight_gradient, key)) return apart;
    }
    return find(WorkKind::backward, key);
  }

 private:
  static TurnPart part_of(const Turn& turn) {
    if (turn.beside) return TurnPart::merged;
    if (turn.work.kind == WorkKind::forward) return TurnPart::forward;
    return turn.work.kind == WorkKind::weight_gradient ? TurnPart::weights : TurnPart::backward;
  }

  void add(const StageWork& work, std::size_t turn) {
    const bool inputs = work.kind == WorkKind::input_gradient;
    turns_[{inputs ? WorkKind::backward : work.kind, work.microbatch, work.chunk}] = turn;
  }

  std::optional<std::size_t> find(WorkKind kind, const OpKey& key) const {
    const auto at = turns_.find({kind, key.microbatch, key.chunk});
    return at == turns_.end() ? std::nullopt : std::optional(at->second);
  }

  std::map<WorkKey, std::size_t> turns_;
  std::vector<TurnPart> parts_;
};

/// One GPU: when each of its turns began and ended, and when it was at work for the update.
struct TurnsOfGpu {
  std::vector<Interval> turns;  // [turn]
  std::vector<Interval> update;
};

bool between_replicas(const Op& op) {
  return op.stream == Stream::dp || op.key.kind == OpKind::optimizer;
}

bool between_stages(Stream stream) { return stream >= Stream::pp_down; }

bool in_one_turn(const OpKey& a, const OpKey& b) {
  return a.role == b.role && a.pass == b.pass && a.microbatch == b.microbatch && a.chunk == b.chunk;
}

void extend(Interval& turn, const Interval& by) {
  turn.start = std::min(turn.start, by.start);
  turn.end = std::max(turn.end, by.end);
}

std::vector<TurnsOfGpu> turns_of_gpus(const Plan& plan, const Timeline& timeline,
                                      const std::vector<StageTurns>& by_stage,
                                      const std::vector<int>& stages) {
  constexpr Seconds never(std::numeric_limits<double>::infinity());
  std::vector<TurnsOfGpu> gpus(stages.size());
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    if (stages[g] < 0) continue;
    gpus[g].turns.assign(by_stage[static_cast<std::size_t>(stages[g])].size(), {never, Seconds(0)});
  }
  OpKey last;  // ops that follow each other are mostly of one turn
  std::size_t last_stage = by_stage.size();
  std::optional<std::size_t> turn;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (between_stages(op.stream) || op.group.size() == 0) continue;
    const std::span<const Interval> times = timeline.ops[i];
    if (between_replicas(op)) {
      // The first ones wait for the others, which is not work.
      const Seconds moving = moving_from(times);
      for (std::size_t m = 0; m < times.size(); ++m) {
        const Seconds start = op.exchange() != nullptr ? moving : times[m].start;
        if (start < times[m].end) gpus[op.group[m].index()].update.push_back({start, times[m].end});
      }
      continue;
    }
    const auto stage = static_cast<std::size_t>(stages[op.group[0].index()]);
    if (stage != last_stage || !in_one_turn(op.key, last)) {
      turn = by_stage[stage].turn_of(last = op.key);
      last_stage = stage;
    }
    if (!turn) continue;
    for (std::size_t m = 0; m < times.size(); ++m) {
      extend(gpus[op.group[m].index()].turns[*turn], times[m]);
    }
  }
  return gpus;
}

TurnTimes times_of(const TurnsOfGpu& gpu, const StageTurns& turns, Seconds makespan) {
  TurnTimes times;
  std::vector<Interval> busy;
  Seconds before(0);
  for (std::size_t t = 0; t < gpu.turns.size(); ++t) {
    const Seconds start = std::max(before, gpu.turns[t].start), end = gpu.turns[t].end;
    if (!(start < end)) continue;
    times.of(turns.part(t)) += end - start;
    busy.push_back({start, end});
    before = end;
  }
  busy = united(std::move(busy));
  times.of(TurnPart::update) = outside(united(gpu.update), busy);
  times.of(TurnPart::bubble) = makespan - length(busy) - times.of(TurnPart::update);
  return times;
}

}  // namespace

std::vector<TurnTimes> turn_times_by_stage(const Plan& plan, const Timeline& timeline,
                                           const Pipeline& pipeline,
                                           const std::vector<int>& stages) {
  std::vector<StageTurns> by_stage;
  for (int r = 0; r < pipeline.stages(); ++r) by_stage.emplace_back(pipeline.of(r));
  std::vector<double> gpus_of(by_stage.size());
  for (const int stage : stages) {
    if (stage >= 0) ++gpus_of[static_cast<std::size_t>(stage)];
  }
  std::vector<TurnTimes> means(by_stage.size());
  const auto gpus = turns_of_gpus(plan, timeline, by_stage, stages);
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    if (stages[g] < 0) continue;
    const auto stage = static_cast<std::size_t>(stages[g]);
    const TurnTimes own = times_of(gpus[g], by_stage[stage], timeline.makespan);
    for (std::size_t p = 0; p < own.parts.size(); ++p) {
      means[stage].parts[p] += own.parts[p] * (1 / gpus_of[stage]);
    }
  }
  return means;
}

}  // namespace moesim
