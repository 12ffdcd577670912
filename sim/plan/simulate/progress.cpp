// SPDX-License-Identifier: Apache-2.0
// Progress: one pass over the edges of the plan, then constant work per edge.
#include "sim/plan/simulate/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/base/error.h"
#include "sim/plan/check.h"
#include "sim/plan/waits.h"

namespace moesim {

template <class Visit>
void Progress::visit_edges(Visit visit) const {
  for_each_wait(plan_, [&](OpId earlier, std::size_t its_member, OpId op, std::size_t member) {
    visit(first_step_[earlier.index()] + static_cast<std::int64_t>(its_member),
          first_step_[op.index()] + static_cast<std::int64_t>(member));
  });
}

bool is_computing(const Op& op) {
  return op.stream == Stream::compute && op.kernels() != nullptr &&
         !std::holds_alternative<HostWork>(op.kernels()->each().front());
}

Progress::Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends)
    : plan_(plan), kernel_ends_(kernel_ends) {
  check_gpus(plan, gpus.size());
  const std::size_t ops = plan.ops.size();
  std::size_t steps = 0;
  for (const Op& op : plan.ops) steps += op.group.size();
  // Millions, of which each list takes what it needs and no more.
  steps_.reserve(steps);
  duration_.reserve(steps);
  first_step_.push_back(0);
  timeline_.ops.resize(ops);
  for (std::size_t id = 0; id < ops; ++id) {
    const std::size_t count = plan.ops[id].group.size();
    steps_.insert(steps_.end(), count, Joining{static_cast<std::int32_t>(id), 0, Seconds(0)});
    first_step_.push_back(static_cast<std::int64_t>(steps_.size()));
    absent_.push_back(static_cast<std::int32_t>(count));
    const Op& op = plan.ops[id];
    for (std::size_t m = 0; m < count; ++m) {
      const Kernels* kernels = op.kernels();
      duration_.push_back(kernels ? gpus[op.group[m].index()]->time(kernels->of(m), op.key.type())
                                  : Seconds(0));
    }
    timeline_.ops[id].resize(count);
  }
  unfinished_ = absent_;

  first_dependent_.resize(steps_.size() + 1);
  visit_edges([&](std::int64_t before, std::int64_t step) {
    ++first_dependent_[static_cast<std::size_t>(before) + 1];
    ++steps_[static_cast<std::size_t>(step)].waits;
  });
  std::partial_sum(first_dependent_.begin(), first_dependent_.end(), first_dependent_.begin());
  dependents_.resize(static_cast<std::size_t>(first_dependent_.back()));
  std::vector<std::int32_t> next = first_dependent_;
  visit_edges([&](std::int64_t before, std::int64_t step) {
    dependents_[static_cast<std::size_t>(next[static_cast<std::size_t>(before)]++)] =
        static_cast<std::int32_t>(step);
  });

  std::vector<std::int64_t> free;
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    if (steps_[step].waits == 0) free.push_back(static_cast<std::int64_t>(step));
  }
  for (std::int64_t step : free) join(step, Seconds(0));
  propagate();
}

std::vector<Progress::Joined> Progress::take_joined() {
  std::ranges::sort(joined_, {}, [](const Joined& j) { return std::pair(j.op, j.participant); });
  return std::exchange(joined_, {});
}

void Progress::end(OpId op, Seconds at) {
  for (auto step = first_step_[op.index()]; step < first_step_[op.index() + 1]; ++step) {
    ended_.push_back({step, at});
  }
  propagate();
}

void Progress::end(OpId op, std::int32_t participant, Seconds at) {
  ended_.push_back({first_step_[op.index()] + participant, at});
  propagate();
}

void Progress::join(std::int64_t step, Seconds at) {
  const auto op = static_cast<std::size_t>(steps_[static_cast<std::size_t>(step)].op);
  const auto participant = static_cast<std::int32_t>(step - first_step_[op]);
  timeline_.ops[op][static_cast<std::size_t>(participant)].start = at;
  --absent_[op];
  const bool kernel = plan_.ops[op].kernels() != nullptr;
  if (kernel && (kernel_ends_ == KernelEnds::timed || !is_computing(plan_.ops[op]))) {
    ended_.push_back({step, at + duration_[static_cast<std::size_t>(step)]});
    return;
  }
  joined_.push_back({OpId(static_cast<std::int64_t>(op)), participant, at, std::nullopt});
  if (absent_[op] == 0) {
    joined_.back().all = std::ranges::max(timeline_.ops[op], {}, &Interval::start).start;
  }
}

void Progress::propagate() {
  while (!ended_.empty()) {
    const auto [ended, at] = ended_.back();
    ended_.pop_back();
    const auto op = static_cast<std::size_t>(steps_[static_cast<std::size_t>(ended)].op);
    --unfinished_[op];
    timeline_.ops[op][static_cast<std::size_t>(ended - first_step_[op])].end = at;
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
                           waiting.empty() ? "" : ", ", id, op.label, op.key.layer, absent_[id],
                           timeline_.ops[id].size());
  }
  if (count > 0) {
    throw std::runtime_error(fmt::format("{} op{} of plan '{}' never finished: {}{}", count,
                                         count == 1 ? "" : "s", plan_.name, waiting,
                                         count > 5 ? ", ..." : ""));
  }
  return std::move(timeline_);
}

}  // namespace moesim
