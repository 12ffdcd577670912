// SPDX-License-Identifier: Apache-2.0
// Progress: one pass over the waits of ops, then constant work per wait of a member.
#include "sim/plan/simulate/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "sim/base/large_memory.h"
#include "sim/plan/check.h"
#include "sim/plan/waits.h"

namespace moesim {

bool is_computing(const Op& op) {
  return op.stream == Stream::compute && op.kernels() != nullptr &&
         !std::holds_alternative<HostWork>(op.kernels()->each().front());
}

Progress::Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends)
    : plan_(plan),
      kernel_ends_(kernel_ends),
      durations_((check_gpus(plan, gpus.size()), plan), gpus, kernel_ends != KernelEnds::timed),
      host_(plan, gpus,
            [this](std::size_t op, std::int32_t member) { return durations_.of(op, member); }) {
  std::size_t members = 0;
  for (const Op& op : plan.ops) members += op.group.size();
  timeline_.ops.reserve(plan.ops.size(), members);
  expect_to_fill(timeline_.ops.elements().data(), members);
  for (const Op& op : plan.ops) timeline_.ops.add_row(op.group.size());
  for (const Op& op : plan.ops) {
    runs_by_itself_.push_back(op.kernels() != nullptr &&
                              (kernel_ends_ == KernelEnds::timed || !is_computing(op)));
  }
  find_waits();
  find_chains();
  count_waits();
  std::vector<std::pair<std::size_t, std::int32_t>> free;
  for (std::size_t op = 0; op < plan.ops.size(); ++op) {
    for (std::int32_t m = 0; first_wait_[op] >= 0 && m < absent_[op]; ++m) {
      if (waits_[static_cast<std::size_t>(first_wait_[op] + m)] == 0) free.emplace_back(op, m);
    }
  }
  for (const auto& [op, member] : free) join(op, member, Seconds(0));
  propagate();
}

/// What has run before on a stream of a member is waited for by all members that run it, also by
/// members for whom other ops came between: they end later there, so that nothing changes.
void Progress::find_waits() {
  const std::size_t ops = plan_.ops.size();
  std::vector<std::pair<std::int32_t, std::int32_t>> of_hosts;  // waiting, awaited
  if (host_.takes_time()) {
    host_.for_each_wait([&](OpId earlier, std::size_t, OpId op, std::size_t) {
      const std::pair wait(op.value, earlier.value);
      if (of_hosts.empty() || of_hosts.back() != wait) of_hosts.push_back(wait);
    });
  }
  auto of_host = of_hosts.begin();  // ops ascend
  const auto gpus = static_cast<std::size_t>(plan_.gpus);
  std::vector<std::int32_t> last(gpus * stream_count, -1);
  std::vector<std::int32_t> earlier;
  first_waited_for_.assign(1, 0);
  first_waited_for_.reserve(ops + 1);
  first_dependent_.assign(ops + 2, 0);
  for (std::size_t id = 0; id < ops; ++id) {
    const Op& op = plan_.ops[id];
    earlier.clear();
    for (const OpId after : op.after) earlier.push_back(after.value);
    const auto stream = std::span(last).subspan(static_cast<std::size_t>(op.stream) * gpus, gpus);
    std::int32_t noted = -1;
    for (const GpuId gpu : op.group) {
      const std::int32_t before = std::exchange(stream[gpu.index()], static_cast<std::int32_t>(id));
      if (before != noted && before >= 0) earlier.push_back(noted = before);
    }
    for (; of_host != of_hosts.end() && of_host->first == static_cast<std::int32_t>(id);
         ++of_host) {
      earlier.push_back(of_host->second);
    }
    std::ranges::sort(earlier);
    earlier.erase(std::ranges::unique(earlier).begin(), earlier.end());
    waited_for_.insert(waited_for_.end(), earlier.begin(), earlier.end());
    first_waited_for_.push_back(waited_for_.size());
    for (const std::int32_t before : earlier)
      ++first_dependent_[static_cast<std::size_t>(before) + 2];
  }
  // Counted one place late, so that filling the lists moves each start to where it belongs.
  std::partial_sum(first_dependent_.begin(), first_dependent_.end(), first_dependent_.begin());
  dependents_.resize(waited_for_.size());
  for (std::size_t id = 0; id < ops; ++id) {
    for (const std::int32_t before : waited_for(id)) {
      dependents_[first_dependent_[static_cast<std::size_t>(before) + 1]++] =
          static_cast<std::int32_t>(id);
    }
  }
}

/// Exact, because all that happens to a chain happens to its first op, and all that it causes to
/// the ops that wait for its last. A host that waits is told of the end first.
bool Progress::may_chain(std::size_t earlier, std::size_t op) const {
  const Op &first = plan_.ops[earlier], &second = plan_.ops[op];
  if (earlier >= op || dependents(earlier).size() != 1) return false;
  if (runs_by_itself_[earlier] != runs_by_itself_[op]) return false;
  if (!runs_by_itself_[op]) {
    if (kernel_ends_ != KernelEnds::told_by_chain || host_.waits_for(earlier)) return false;
    if (!is_computing(first) || !is_computing(second)) return false;
  }
  return first.stream == second.stream && first.group == second.group;
}

void Progress::find_chains() {
  const std::size_t ops = plan_.ops.size();
  next_in_chain_.assign(ops, -1);
  std::size_t members = 0;
  for (std::size_t op = 0; op < ops; ++op) {
    const std::size_t count = plan_.ops[op].group.size();
    absent_.push_back(static_cast<std::int32_t>(count));
    const auto waits = waited_for(op);
    if (waits.size() == 1 && may_chain(static_cast<std::size_t>(waits[0]), op)) {
      next_in_chain_[static_cast<std::size_t>(waits[0])] = static_cast<std::int32_t>(op);
      first_wait_.push_back(-1);
    } else {
      first_wait_.push_back(static_cast<std::int64_t>(members));
      members += count;
    }
  }
  unfinished_ = absent_;
  waits_.resize(members);
}

void Progress::count_waits() {
  for (std::size_t op = 0; op < plan_.ops.size(); ++op) {
    if (first_wait_[op] < 0) continue;
    const std::span waits = std::span(waits_).subspan(static_cast<std::size_t>(first_wait_[op]),
                                                      plan_.ops[op].group.size());
    for (const std::int32_t earlier : waited_for(op)) {
      for_each_common(plan_.ops[static_cast<std::size_t>(earlier)].group, plan_.ops[op].group,
                      [&](std::size_t, std::size_t member) { ++waits[member]; });
    }
  }
  first_waited_for_ = {};
  waited_for_ = {};
}

void Progress::take_joined(std::vector<Joined>& joined) {
  joined.clear();
  joined.swap(joined_);
  std::ranges::sort(joined, {}, [](const Joined& j) { return std::pair(j.op, j.participant); });
}

void Progress::record_end(std::size_t op, std::int32_t member, Seconds at) {
  --unfinished_[op];
  timeline_.ops[op][static_cast<std::size_t>(member)].end = at;
  tell_host(op, member, at);
}

void Progress::end(OpId op, Seconds at) {
  const auto members = static_cast<std::int32_t>(plan_[op].group.size());
  for (std::int32_t m = 0; m < members; ++m) record_end(op.index(), m, at);
  ended_.push_back({op.value, everyone, at});
  propagate();
}

void Progress::end(OpId op, std::int32_t participant, Seconds at) {
  record_end(op.index(), participant, at);
  ended_.push_back({op.value, participant, at});
  propagate();
}

void Progress::pass_on(OpId op, std::int32_t participant, Seconds end) {
  record_end(op.index(), participant, end);
  const auto next = static_cast<std::size_t>(next_in_chain_[op.index()]);
  timeline_.ops[next][static_cast<std::size_t>(participant)].start = start(next, participant, end);
  --absent_[next];
}

void Progress::join(std::size_t op, std::int32_t participant, Seconds at) {
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
  while (true) {
    timeline_.ops[op][static_cast<std::size_t>(member)].start = at = start(op, member, at);
    --absent_[op];
    at += durations_.of(op, member);
    record_end(op, member, at);
    if (next_in_chain_[op] < 0) break;
    op = static_cast<std::size_t>(next_in_chain_[op]);
  }
  ended_.push_back({static_cast<std::int32_t>(op), member, at});
}

void Progress::arrive(std::size_t op, std::size_t member, Seconds at) {
  Seconds& start = timeline_.ops[op][member].start;
  start = std::max(start, at);
  if (--waits_[static_cast<std::size_t>(first_wait_[op]) + member] == 0) {
    join(op, static_cast<std::int32_t>(member), start);
  }
}

void Progress::arrive_together(std::size_t exchange, Seconds at) {
  const std::span<Interval> intervals = timeline_.ops[exchange];
  const std::span waits =
      std::span(waits_).subspan(static_cast<std::size_t>(first_wait_[exchange]), intervals.size());
  bool together = true;
  for (std::size_t m = 0; m < intervals.size(); ++m) {
    Seconds& start = intervals[m].start;
    if (start < at) start = at;
    if (--waits[m] > 0 || start > at) together = false;
  }
  if (together) {
    absent_[exchange] = 0;
    joined_.push_back({OpId(static_cast<std::int64_t>(exchange)), everyone, at, at});
    return;
  }
  for (std::size_t m = 0; m < intervals.size(); ++m) {
    if (waits[m] == 0) join(exchange, static_cast<std::int32_t>(m), intervals[m].start);
  }
}

void Progress::propagate() {
  while (!ended_.empty()) {
    const Ended ended = ended_.back();
    ended_.pop_back();
    timeline_.makespan = std::max(timeline_.makespan, ended.at);
    const auto op = static_cast<std::size_t>(ended.op);
    const Group& group = plan_.ops[op].group;
    for (const std::int32_t waiting : dependents(op)) {
      const auto next = static_cast<std::size_t>(waiting);
      const Group& others = plan_.ops[next].group;
      if (ended.member == everyone) {
        if (together_ && group.shares_list(others) && plan_.ops[next].exchange() != nullptr) {
          arrive_together(next, ended.at);
          continue;
        }
        for_each_common(group, others,
                        [&](std::size_t, std::size_t member) { arrive(next, member, ended.at); });
        continue;
      }
      const auto own = static_cast<std::size_t>(ended.member);
      const std::size_t member = group.shares_list(others) ? own : others.member(group[own]);
      if (member < others.size()) arrive(next, member, ended.at);
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
