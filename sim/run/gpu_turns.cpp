// SPDX-License-Identifier: Apache-2.0
#include "sim/run/gpu_turns.h"

#include <algorithm>
#include <limits>

#include "sim/report/intervals.h"
#include "sim/report/spans.h"

namespace moesim {
namespace {

/// Sums of gradients and what follows them, which is behind all turns.
bool of_update(const Op& op) {
  const bool undivided = op.key.kind == OpKind::tensor_exchange && op.key.layer < 0;
  return op.stream == Stream::dp || op.key.kind == OpKind::optimizer || undivided;
}

void extend(Interval& turn, const Interval& by) {
  turn.start = std::min(turn.start, by.start);
  turn.end = std::max(turn.end, by.end);
}

/// The first ones wait for the others, which is not work.
void add_update(const Op& op, const OpIntervals& times, std::vector<TurnsOfGpu>& gpus) {
  const std::vector<Seconds> moving = moving_from(op, times);
  for (std::size_t m = 0; m < times.size(); ++m) {
    const auto in = static_cast<std::size_t>(op.place_of(m).collective);
    const Seconds start = op.exchange() != nullptr ? moving[in] : times[m].start;
    if (start < times[m].end) gpus[op.group[m].index()].update.push_back({start, times[m].end});
  }
}

}  // namespace

TurnsOfStage::TurnsOfStage(const Timetable& timetable) : size_(timetable.size()) {
  for (std::size_t t = 0; t < timetable.size(); ++t) {
    add(timetable[t].work, t);
    if (timetable[t].beside) add(*timetable[t].beside, t);
  }
}

std::optional<std::size_t> TurnsOfStage::turn_of(const OpKey& key) const {
  const bool back = key.pass == Pass::backward || key.role == Role::recompute;
  if (!back) return find(WorkKind::forward, key);
  if (key.role == Role::wgrad) {
    if (const auto apart = find(WorkKind::weight_gradient, key)) return apart;
  }
  return find(WorkKind::backward, key);
}

void TurnsOfStage::add(const StageWork& work, std::size_t turn) {
  const bool inputs = work.kind == WorkKind::input_gradient;
  turns_[{inputs ? WorkKind::backward : work.kind, work.microbatch, work.chunk}] = turn;
}

std::optional<std::size_t> TurnsOfStage::find(WorkKind kind, const OpKey& key) const {
  const auto at = turns_.find({kind, key.microbatch, key.chunk});
  return at == turns_.end() ? std::nullopt : std::optional(at->second);
}

std::vector<TurnsOfStage> turns_by_stage(const Pipeline& pipeline) {
  std::vector<TurnsOfStage> stages;
  for (int r = 0; r < pipeline.stages(); ++r) stages.emplace_back(pipeline.of(r));
  return stages;
}

std::vector<TurnsOfGpu> turns_of_gpus(const Plan& plan, const Timeline& timeline,
                                      const std::vector<TurnsOfStage>& by_stage,
                                      const std::vector<int>& stages) {
  constexpr Seconds never(std::numeric_limits<double>::infinity());
  std::vector<TurnsOfGpu> gpus(stages.size());
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    if (stages[g] < 0) continue;
    gpus[g].turns.assign(by_stage[static_cast<std::size_t>(stages[g])].size(), {never, Seconds(0)});
    gpus[g].work = gpus[g].turns;
  }
  std::vector<Interval> times;
  for_each_op_of_turns(plan, by_stage, stages, [&](std::size_t i, std::size_t, auto turn) {
    const Op& op = plan.ops[i];
    if (is_between_stages(op.stream) || copies_to_hosts(op.stream)) return;
    if (of_update(op)) return add_update(op, timeline.ops[i], gpus);
    if (!turn) return;
    read_times(timeline.ops[i], times);
    const std::vector<GpuId>& members = op.group.list();
    for (std::size_t m = 0; m < times.size(); ++m) {
      TurnsOfGpu& gpu = gpus[members[m].index()];
      extend(gpu.turns[*turn], times[m]);
      if (op.stream != Stream::param) extend(gpu.work[*turn], times[m]);
    }
  });
  return gpus;
}

}  // namespace moesim
