// SPDX-License-Identifier: Apache-2.0
#include "sim/run/steady_state.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "sim/plan/simulate/host_program.h"
#include "sim/report/intervals.h"
#include "sim/report/iteration_metrics.h"

namespace moesim {
namespace {

constexpr double most_error = 1e-2, most_drift = 1e-2;  // of the step
constexpr double most_apart = 4e-3;                     // a period on the path, of those of turns
/// What ops do in the periods left out is not bounded by what they did before: exchanges in the
/// background may meet other kernels. This is what tests need.
constexpr double caution = 8, caution_of_parts = 3;
constexpr Seconds never(std::numeric_limits<double>::infinity());

/// What a period takes, at least and at most.
struct PeriodTime {
  Seconds least = never, most = never * -1.0;
  void cover(Seconds time) {
    least = std::min(least, time);
    most = std::max(most, time);
  }
};

/// The timetables' turns of all simulated GPUs.
class Turns {
 public:
  Turns(const std::vector<TurnsOfGpu>& gpus, const ShortenedPipeline& shortened,
        const std::vector<int>& stages)
      : gpus_(gpus), shortened_(shortened), stages_(stages) {}

  /// Up to the first end of a last repeated turn, as long as that GPU's last period takes. What a
  /// GPU waits for behind it is no longer what it waited for a period before.
  std::optional<Interval> last_period() const {
    std::optional<Interval> period;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      if (stages_[g] < 0) continue;
      const RepeatingTurns& of = repeating(g);
      if (of.last <= of.turns) return std::nullopt;
      const auto last = static_cast<std::size_t>(of.last) - 1;
      const Interval& turn = gpus_[g].turns[last];
      const Interval& before = gpus_[g].turns[last - static_cast<std::size_t>(of.turns)];
      if (!period || turn.end < period->end) period = {before.end, turn.end};
    }
    return period;
  }

  /// From the turns that start in the window and those a period before; nothing if these do not
  /// repeat.
  std::optional<PeriodTime> time_of_period(const Interval& window) const {
    PeriodTime range;
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      if (stages_[g] < 0) continue;
      const auto& turns = gpus_[g].turns;
      const RepeatingTurns& of = repeating(g);
      for (std::size_t t = 0; t < turns.size(); ++t) {
        if (turns[t].start < window.start || !(turns[t].start < window.end)) continue;
        if (std::cmp_less(t, of.first)) return std::nullopt;
        const Interval& before = turns[t - static_cast<std::size_t>(of.turns)];
        range.cover(turns[t].start - before.start);
        range.cover(turns[t].end - before.end);
      }
    }
    return range.least <= range.most ? std::optional(range) : std::nullopt;
  }

 private:
  const RepeatingTurns& repeating(std::size_t gpu) const {
    return shortened_.stages[static_cast<std::size_t>(stages_[gpu])];
  }

  const std::vector<TurnsOfGpu>& gpus_;
  const ShortenedPipeline& shortened_;
  const std::vector<int>& stages_;
};

/// What a period takes where the step's critical path goes through it.
Seconds on_the_path(const std::vector<PathSegment>& path, Seconds makespan, int periods) {
  Seconds length;
  for (const PathSegment& each : path) length += each.length();
  return (length - makespan) * (1.0 / periods);
}

/// When a GPU first joins one of the transfers between stages that repeat.
Seconds first_transfer(const Plan& plan, const Timeline& timeline, const Continued& continued) {
  Seconds first = never;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (!continued.repeats[i] || !is_between_stages(plan.ops[i].stream)) continue;
    const OpIntervals times = timeline.ops[i];
    for (std::size_t m = 0; m < times.size(); ++m) first = std::min(first, times.start(m));
  }
  return first;
}

/// The period, earlier if one of these transfers would be joined again in it: that of a later
/// microbatch lacks.
Interval no_later_than(Seconds first, const Interval& period) {
  const Seconds length = period.end - period.start;
  constexpr double before = 1 - 1e-6;  // so that rounding does not move it to the other side
  const Seconds end = std::min(period.end, first + length * before);
  return {end - length, end};
}

/// From every start and end of an op that repeats, and of the one a period before.
PeriodTime time_of_ops(const Timeline& timeline, const Continued& continued) {
  PeriodTime time;
  std::vector<Interval> before, after;
  for (std::size_t i = 0; i < continued.later.size(); ++i) {
    const auto later = static_cast<std::size_t>(continued.later[i]);
    if (continued.later[i] < 0 || !continued.repeats[later]) continue;
    read_times(timeline.ops[i], before);
    read_times(timeline.ops[later], after);
    for (std::size_t m = 0; m < before.size(); ++m) {
      time.cover(after[m].start - before[m].start);
      time.cover(after[m].end - before[m].end);
    }
  }
  return time;
}

/// Whether no host falls behind its GPU from period to period: it waits for the GPU in each, or
/// issues one in no more time than it takes.
bool hosts_keep_up(const Plan& plan, const Continued& continued, const GpuModels& gpus) {
  if (!hosts_take_time(gpus)) return true;
  std::vector<bool> repeats(gpus.size()), waits(gpus.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    if (!continued.repeats[i]) continue;
    for (const GpuId gpu : plan.ops[i].group) {
      repeats[gpu.index()] = true;
      if (is_waited_for(gpus[gpu.index()]->host, plan.ops[i])) waits[gpu.index()] = true;
    }
  }
  if (waits == repeats) return true;  // the program is worked out for hosts that never wait
  const HostProgram hosts(plan, gpus, [](auto, auto) { return Seconds(0); });
  const Seconds period = (continued.window.end - continued.window.start) * (1 + 1e-9);
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const auto later = static_cast<std::size_t>(continued.later[i]);
    if (continued.later[i] < 0 || !continued.repeats[later]) continue;
    for (std::int32_t m = 0; std::cmp_less(m, plan.ops[i].group.size()); ++m) {
      if (waits[plan.ops[i].group[static_cast<std::size_t>(m)].index()]) continue;
      if (hosts.issued(later, m) - hosts.issued(i, m) > period) return false;
    }
  }
  return true;
}

/// Which ops repeat: those of the last period, and to which later ones those before are equal.
void find_repeated(const Plan& plan, const ShortenedPipeline& shortened,
                   const std::vector<TurnsOfStage>& by_stage, const std::vector<int>& stages,
                   Continued& continued) {
  continued.repeats.resize(plan.ops.size());
  continued.later.assign(plan.ops.size(), -1);
  std::vector<std::vector<std::vector<std::int32_t>>> ops(by_stage.size());  // [stage][turn]
  for (std::size_t r = 0; r < ops.size(); ++r) ops[r].resize(by_stage[r].size());
  for_each_op_of_turns(plan, by_stage, stages, [&](std::size_t i, std::size_t stage, auto turn) {
    if (turn) ops[stage][*turn].push_back(static_cast<std::int32_t>(i));
  });
  for (std::size_t r = 0; r < ops.size(); ++r) {
    const RepeatingTurns& of = shortened.stages[r];
    for (int t = of.last - of.turns; t < of.last; ++t) {
      for (const std::int32_t op : ops[r][static_cast<std::size_t>(t)]) {
        continued.repeats[static_cast<std::size_t>(op)] = true;
      }
    }
    for (int t = of.first - of.turns; t < of.last - of.turns; ++t) {
      const auto& before = ops[r][static_cast<std::size_t>(t)];
      const auto& after = ops[r][static_cast<std::size_t>(t + of.turns)];
      if (before.size() != after.size()) continue;
      for (std::size_t i = 0; i < before.size(); ++i) {
        const auto op = static_cast<std::size_t>(before[i]);
        const Op& later = plan.ops[static_cast<std::size_t>(after[i])];
        if (plan.ops[op].group == later.group) continued.later[op] = after[i];
      }
    }
  }
}

}  // namespace

std::optional<SteadyState> steady_state(const PricedPlan& priced, const Timeline& timeline,
                                        const ShortenedPipeline& shortened,
                                        const std::vector<int>& stages, const GpuModels& gpus) {
  const Plan& plan = priced.plan();
  const auto by_stage = turns_by_stage(shortened.pipeline);
  SteadyState steady{{}, {}, turns_of_gpus(plan, timeline, by_stage, stages)};
  const Turns turns(steady.turns, shortened, stages);
  Continued& continued = steady.continued;
  continued.times = shortened.times;
  find_repeated(plan, shortened, by_stage, stages, continued);
  std::optional<Interval> last = turns.last_period();
  if (!last) return std::nullopt;
  last = no_later_than(first_transfer(plan, timeline, continued), *last);
  const std::optional<PeriodTime> time = turns.time_of_period(*last);
  if (!time) return std::nullopt;
  steady.path = critical_path(plan, timeline, &continued);
  const Seconds period = on_the_path(steady.path, timeline.makespan, continued.times);
  if (period < time->least * (1 - most_apart) || period > time->most * (1 + most_apart)) {
    return std::nullopt;  // the path did not come through all periods
  }
  continued.window = {last->end - period, last->end};
  continued.error =
      std::max(time->most - period, period - time->least) * (caution * continued.times);
  const PeriodTime of_ops = time_of_ops(timeline, continued);
  continued.drift =
      std::max(of_ops.most - period, period - of_ops.least) * (caution_of_parts * continued.times);
  const Seconds whole = timeline.makespan + continued.left_out();
  if (continued.error > whole * most_error || continued.drift > whole * most_drift) {
    return std::nullopt;
  }
  if (!hosts_keep_up(plan, continued, gpus)) return std::nullopt;
  return steady;
}

}  // namespace moesim
