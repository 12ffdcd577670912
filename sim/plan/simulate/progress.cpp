// SPDX-License-Identifier: Apache-2.0
// Progress: one pass over the edges of the plan, then constant work per edge.
#include "sim/plan/simulate/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/base/error.h"
#include "sim/plan/check.h"
#include "sim/plan/waits.h"

namespace moesim {

template <class Visit>
void Progress::visit_waits(Visit visit) const {
  for_each_wait(plan_, visit);
  if (host_.takes_time()) host_.for_each_wait(visit);
}

/// Between steps: the links of a chain are none.
template <class Visit>
void Progress::visit_edges(Visit visit) const {
  visit_waits([&](OpId earlier, std::size_t its_member, OpId op, std::size_t member) {
    const auto from = static_cast<std::size_t>(head_[earlier.index()]);
    const auto to = static_cast<std::size_t>(head_[op.index()]);
    if (next_in_chain_[earlier.index()] == static_cast<std::int32_t>(op.value)) return;
    visit(first_step_[from] + static_cast<std::int64_t>(its_member),
          first_step_[to] + static_cast<std::int64_t>(member));
  });
}

bool is_computing(const Op& op) {
  return op.stream == Stream::compute && op.kernels() != nullptr &&
         !std::holds_alternative<HostWork>(op.kernels()->each().front());
}

Progress::Durations::Durations(const Plan& plan, const GpuModels& gpus) {
  const auto model_of = [&](GpuId gpu) { return gpus[gpu.index()].get(); };
  const bool alike = std::ranges::all_of(gpus, [&](const auto& gpu) { return gpu == gpus[0]; });
  // Ops that share kernels have the same times, on GPUs that differ if they share the group, too.
  using Shared = std::tuple<const Kernel*, const std::vector<GpuId>*, OpType>;
  std::map<Shared, OfOp> known;
  ops_.reserve(plan.ops.size());
  for (const Op& op : plan.ops) {
    const Kernels* kernels = op.kernels();
    if (kernels == nullptr) {
      ops_.emplace_back();
      continue;
    }
    const auto& each = kernels->each();
    const auto [same, is_new] =
        known.try_emplace({each.data(), alike ? nullptr : &op.group.list(), op.key.type()});
    if (is_new) {
      const bool agree = each.size() == 1 && std::ranges::all_of(op.group, [&](GpuId gpu) {
                           return model_of(gpu) == model_of(op.group.front());
                         });
      same->second = {std::ssize(times_), agree};
      const std::size_t count = agree ? 1 : op.group.size();
      for (std::size_t m = 0; m < count; ++m) {
        times_.push_back(model_of(op.group[m])->time(kernels->of(m), op.key.type()));
      }
    }
    ops_.push_back(same->second);
  }
}

Progress::Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends)
    : plan_(plan),
      kernel_ends_(kernel_ends),
      durations_((check_gpus(plan, gpus.size()), plan), gpus),
      host_(plan, gpus,
            [this](std::size_t op, std::int32_t member) { return durations_.of(op, member); }) {
  std::size_t members = 0;
  for (const Op& op : plan.ops) members += op.group.size();
  timeline_.ops.reserve(plan.ops.size(), members);
  for (const Op& op : plan.ops) timeline_.ops.add_row(op.group.size());
  for (const Op& op : plan.ops) {
    runs_by_itself_.push_back(op.kernels() != nullptr &&
                              (kernel_ends_ == KernelEnds::timed || !is_computing(op)));
  }
  find_chains();
  make_steps();
  std::vector<std::int64_t> free;
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    if (steps_[step].waits == 0) free.push_back(static_cast<std::int64_t>(step));
  }
  for (std::int64_t step : free) join(step, Seconds(0));
  propagate();
}

/// Exact, because all that happens to a chain happens to its first op, and all that it causes to
/// the ops that wait for its last.
void Progress::find_chains() {
  constexpr std::int32_t none = -1, several = -2;
  const std::size_t ops = plan_.ops.size();
  std::vector<std::int32_t> before(ops, none), behind(ops, none);
  const auto note = [](std::int32_t& only, std::size_t other) {
    if (only == none) only = static_cast<std::int32_t>(other);
    if (only != static_cast<std::int32_t>(other)) only = several;
  };
  visit_waits([&](OpId earlier, std::size_t, OpId op, std::size_t) {
    note(before[op.index()], earlier.index());
    note(behind[earlier.index()], op.index());
  });
  next_in_chain_.assign(ops, none);
  head_.resize(ops);
  std::iota(head_.begin(), head_.end(), 0);
  for (std::size_t op = 0; op < ops; ++op) {
    if (before[op] < 0) continue;
    const auto earlier = static_cast<std::size_t>(before[op]);
    const Op &first = plan_.ops[earlier], &second = plan_.ops[op];
    if (behind[earlier] != static_cast<std::int32_t>(op) || !runs_by_itself_[earlier] ||
        !runs_by_itself_[op]) {
      continue;
    }
    if (earlier >= op || first.stream != second.stream || !(first.group == second.group)) continue;
    next_in_chain_[earlier] = static_cast<std::int32_t>(op);
    head_[op] = head_[earlier];
  }
}

/// Millions of steps; each list takes what it needs and no more.
void Progress::make_steps() {
  const std::size_t ops = plan_.ops.size();
  std::size_t steps = 0;
  const auto is_head = [&](std::size_t op) { return head_[op] == static_cast<std::int32_t>(op); };
  for (std::size_t op = 0; op < ops; ++op) {
    if (is_head(op)) steps += plan_.ops[op].group.size();
  }
  steps_.reserve(steps);
  first_step_.assign(ops, -1);
  for (std::size_t op = 0; op < ops; ++op) {
    const std::size_t count = plan_.ops[op].group.size();
    absent_.push_back(static_cast<std::int32_t>(count));
    if (!is_head(op)) continue;
    first_step_[op] = static_cast<std::int64_t>(steps_.size());
    steps_.insert(steps_.end(), count, Joining{static_cast<std::int32_t>(op), 0, Seconds(0)});
  }
  unfinished_ = absent_;
  // Counted one place late, so that filling the lists moves each start to where it belongs.
  first_dependent_.resize(steps_.size() + 2);
  visit_edges([&](std::int64_t before, std::int64_t step) {
    ++first_dependent_[static_cast<std::size_t>(before) + 2];
    ++steps_[static_cast<std::size_t>(step)].waits;
  });
  std::partial_sum(first_dependent_.begin(), first_dependent_.end(), first_dependent_.begin());
  dependents_.resize(static_cast<std::size_t>(first_dependent_.back()));
  visit_edges([&](std::int64_t before, std::int64_t step) {
    auto& next = first_dependent_[static_cast<std::size_t>(before) + 1];
    dependents_[static_cast<std::size_t>(next++)] = static_cast<std::int32_t>(step);
  });
}

std::vector<Progress::Joined> Progress::take_joined() {
  std::ranges::sort(joined_, {}, [](const Joined& j) { return std::pair(j.op, j.participant); });
  return std::exchange(joined_, {});
}

void Progress::end(OpId op, Seconds at) {
  const auto members = static_cast<std::int64_t>(plan_[op].group.size());
  for (std::int64_t m = 0; m < members; ++m) ended_.push_back({first_step_[op.index()] + m, at});
  propagate();
}

void Progress::end(OpId op, std::int32_t participant, Seconds at) {
  ended_.push_back({first_step_[op.index()] + participant, at});
  propagate();
}

void Progress::join(std::int64_t step, Seconds at) {
  const auto op = static_cast<std::size_t>(steps_[static_cast<std::size_t>(step)].op);
  const auto participant = static_cast<std::int32_t>(step - first_step_[op]);
  if (runs_by_itself_[op]) return run_chain(op, participant, at);
  at = start(op, participant, at);
  timeline_.ops[op][static_cast<std::size_t>(participant)].start = at;
  --absent_[op];
  joined_.push_back({OpId(static_cast<std::int64_t>(op)), participant, at, std::nullopt});
  if (absent_[op] == 0) {
    joined_.back().all = std::ranges::max(timeline_.ops[op], {}, &Interval::start).start;
  }
}

/// All but the end of the last, which is reported to the ops that wait for it.
void Progress::run_chain(std::size_t op, std::int32_t member, Seconds at) {
  const std::int64_t step = first_step_[op] + member;
  while (true) {
    Interval& interval = timeline_.ops[op][static_cast<std::size_t>(member)];
    interval.start = at = start(op, member, at);
    --absent_[op];
    at += durations_.of(op, member);
    tell_host(op, member, at);
    if (next_in_chain_[op] < 0) break;
    interval.end = at;
    --unfinished_[op];
    op = static_cast<std::size_t>(next_in_chain_[op]);
  }
  timeline_.ops[op][static_cast<std::size_t>(member)].end = at;
  --unfinished_[op];
  ended_.push_back({step, at});
}

void Progress::propagate() {
  while (!ended_.empty()) {
    const auto [ended, at] = ended_.back();
    ended_.pop_back();
    const auto op = static_cast<std::size_t>(steps_[static_cast<std::size_t>(ended)].op);
    if (!runs_by_itself_[op]) {
      const std::int64_t member = ended - first_step_[op];
      --unfinished_[op];
      timeline_.ops[op][static_cast<std::size_t>(member)].end = at;
      tell_host(op, static_cast<std::int32_t>(member), at);
    }
    timeline_.makespan = std::max(timeline_.makespan, at);
    const auto last = first_dependent_[static_cast<std::size_t>(ended) + 1];
    for (auto d = first_dependent_[static_cast<std::size_t>(ended)]; d < last; ++d) {
      const std::int64_t id = dependents_[static_cast<std::size_t>(d)];
      Joining& step = steps_[static_cast<std::size_t>(id)];
      step.at = std::max(step.at, at);
      if (--step.waits == 0) join(id, step.at);
    }
  }
}

Timeline Progress::finish() {
  std::string waiting;
  int count = 0;
  for (std::size_t id = 0; id < unfinished_.size(); ++id) {
    if (unfinished_[id] == 0 || ++count > 5) continue;
    const Op& op = plan_.ops[id];
    waiting += fmt::format("{}op {} '{}' (layer {}, {} of {} participants missing)",
                           waiting.empty() ? "" : ", ", id, op.label.text(), op.key.layer,
                           absent_[id], timeline_.ops[id].size());
  }
  if (count > 0) {
    throw std::runtime_error(fmt::format("{} op{} of plan '{}' never finished: {}{}", count,
                                         count == 1 ? "" : "s", plan_.name, waiting,
                                         count > 5 ? ", ..." : ""));
  }
  return std::move(timeline_);
}

}  // namespace moesim
