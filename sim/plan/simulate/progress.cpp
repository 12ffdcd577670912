// SPDX-License-Identifier: Apache-2.0
// Progress: constant work per wait of a member.
#include "sim/plan/simulate/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "sim/plan/check.h"
#include "sim/plan/waits.h"

namespace moesim {

bool is_computing(const Op& op) {
  return op.stream == Stream::compute && op.kernels() != nullptr &&
         !std::holds_alternative<HostWork>(op.kernels()->each().front());
}

Progress::Progress(const Plan& plan, const GpuModels& gpus, KernelEnds kernel_ends,
                   ExchangeEnds exchange_ends)
    : plan_(plan),
      kernel_ends_(kernel_ends),
      durations_((check_gpus(plan, gpus.size()), plan), gpus, are_told(kernel_ends)),
      host_(plan, gpus,
            [this](std::size_t op, std::int32_t member) { return durations_.of(op, member); }) {
  for (const Op& op : plan.ops) {
    runs_by_itself_.push_back(op.kernels() != nullptr &&
                              (!are_told(kernel_ends_) || !is_computing(op)));
  }
  find_waits();
  find_chains();
  divide_dependents();
  make_timeline(exchange_ends);
  for (const auto& [op, member] : count_waits()) join(op, member, Seconds(0));
  propagate();
}

void Progress::take_joined(std::vector<Joined>& joined) {
  joined.clear();
  joined.swap(joined_);
  std::ranges::sort(joined, {},
                    [](const Joined& j) { return std::tuple(j.op, j.collective, j.participant); });
}

void Progress::take_computing(std::vector<Computing>& computing) {
  computing.clear();
  computing.swap(computing_);
}

void Progress::record_end(std::size_t op, std::int32_t member, Seconds at) {
  --unfinished_[op];
  timeline_.ops.end(op, static_cast<std::size_t>(member)) = at;
  tell_host(op, member, at);
}

void Progress::record_end_of_everyone(std::size_t op, std::int32_t collective, Seconds at) {
  if (host_.takes_time() || !timeline_.ops.has_common_end(op)) {
    return for_each_member(op, collective, [&](std::size_t member) {
      record_end(op, static_cast<std::int32_t>(member), at);
    });
  }
  const auto in = static_cast<std::size_t>(collective);
  const Collectives* apart = shapes_[op].apart;
  const std::size_t first = apart != nullptr ? apart->members[in].front().index() : 0;
  timeline_.ops.end(op, first) = at;
  unfinished_[op] -= static_cast<std::int32_t>(apart != nullptr ? apart->members[in].size()
                                                                : shapes_[op].group.size());
}

void Progress::end(OpId op, std::int32_t participant, Seconds at) {
  if (is_everyone(participant)) {
    record_end_of_everyone(op.index(), collective_of_everyone(participant), at);
  } else {
    record_end(op.index(), participant, at);
  }
  ended_.push_back({op.value, participant, at});
  propagate();
}

void Progress::pass_on(OpId op, std::int32_t participant, Seconds end) {
  record_end(op.index(), participant, end);
  const auto next = static_cast<std::size_t>(next_in_chain_[op.index()]);
  keep_start(next, participant, start(next, participant, end));
  --absent(next);
}

void Progress::join(std::size_t op, std::int32_t participant, Seconds at) {
  if (runs_by_itself_[op]) return run_chain(op, participant, at);
  at = start(op, participant, at);
  keep_start(op, participant, at);
  const std::int32_t in =
      shapes_[op].apart != nullptr
          ? shapes_[op].apart->of[static_cast<std::size_t>(participant)].collective
          : 0;
  const bool last = --absent(op, in) == 0;
  if (last || !last_alone_) {
    joined_.push_back({OpId(static_cast<std::int64_t>(op)), participant, at, std::nullopt, in});
  }
  if (!last) return;
  const OpIntervals intervals = timeline_.ops[op];
  for_each_member(op, in, [&](std::size_t m) { at = std::max(at, intervals.start(m)); });
  joined_.back().all = at;
}

void Progress::run_chain(std::size_t op, std::int32_t member, Seconds at) {
  if (!follows(op)) return run_one_by_one(op, member, at);
  const auto place = static_cast<std::size_t>(member);
  const std::int32_t last = last_in_chain_[op];
  keep_start(op, member, at);
  const Seconds end = timeline_.ops[static_cast<std::size_t>(last)].end(place);
  if (kernel_ends_ == KernelEnds::foretold && shapes_[op].computing) {
    foretell(shapes_[op].group[place], {at, end});
  }
  --unfinished_[static_cast<std::size_t>(last)];
  ended_.push_back({last, member, end});
}

/// All but the end of the last, which is reported to the ops that wait for it.
void Progress::run_one_by_one(std::size_t op, std::int32_t member, Seconds at) {
  while (true) {
    keep_start(op, member, at = start(op, member, at));
    --absent(op);
    const Seconds end = at + durations_.of(op, member);
    if (kernel_ends_ == KernelEnds::foretold && shapes_[op].computing) {
      foretell(shapes_[op].group[static_cast<std::size_t>(member)], {at, end});
    }
    record_end(op, member, at = end);
    if (next_in_chain_[op] < 0) break;
    op = static_cast<std::size_t>(next_in_chain_[op]);
  }
  ended_.push_back({static_cast<std::int32_t>(op), member, at});
}

/// Kernels that follow each other are one stretch.
void Progress::foretell(GpuId gpu, const Interval& when) {
  if (!computing_.empty() && computing_.back().gpu == gpu &&
      computing_.back().when.end == when.start) {
    computing_.back().when.end = when.end;
  } else {
    computing_.push_back({gpu, when});
  }
}

void Progress::arrive(std::size_t op, std::size_t member, Seconds at) {
  if (first_wait_[op] < 0) return join(op, static_cast<std::int32_t>(member), at);
  if (timeline_.ops.keeps_starts(op)) {
    Seconds& start = timeline_.ops.start(op, member);
    start = std::max(start, at);
  }
  if (--waits_[static_cast<std::size_t>(first_wait_[op]) + member] == 0) {
    join(op, static_cast<std::int32_t>(member), timeline_.ops[op].start(member));
  }
}

void Progress::arrive_together(std::size_t exchange, std::int32_t collective, Seconds at) {
  const std::int64_t first = first_wait_[exchange];
  const auto waits = [&](std::size_t m) -> std::int32_t& {
    return waits_[static_cast<std::size_t>(first) + m];
  };
  bool together = true;
  if (first >= 0) {
    const OpIntervals intervals = timeline_.ops[exchange];
    const bool keeps = timeline_.ops.keeps_starts(exchange);
    for_each_member(exchange, collective, [&](std::size_t m) {
      if (keeps) {
        Seconds& start = timeline_.ops.start(exchange, m);
        if (start < at) start = at;
      }
      if (--waits(m) > 0 || intervals.start(m) > at) together = false;
    });
  }
  if (together) {
    absent(exchange, collective) = 0;
    joined_.push_back(
        {OpId(static_cast<std::int64_t>(exchange)), everyone_of(collective), at, at, collective});
    return;
  }
  for_each_member(exchange, collective, [&](std::size_t m) {
    if (waits(m) > 0) return;
    join(exchange, static_cast<std::int32_t>(m), timeline_.ops[exchange].start(m));
  });
}

void Progress::arrive_all(std::size_t op, std::size_t next, std::int32_t collective, Seconds at) {
  const Group& group = shapes_[op].group;
  const Group& others = shapes_[next].group;
  const bool same = group.shares_list(others);
  const Collectives* several = shapes_[op].apart;
  if (together_ && same && several == shapes_[next].apart && shapes_[next].exchange) {
    return arrive_together(next, collective, at);
  }
  if (several == nullptr) {
    return for_each_common(group, others,
                           [&](std::size_t, std::size_t member) { arrive(next, member, at); });
  }
  for (const GpuId place : several->members[static_cast<std::size_t>(collective)]) {
    const std::size_t member = same ? place.index() : others.member(group[place.index()]);
    if (member < others.size()) arrive(next, member, at);
  }
}

void Progress::propagate() {
  while (!ended_.empty()) {
    const Ended ended = ended_.back();
    ended_.pop_back();
    timeline_.makespan = std::max(timeline_.makespan, ended.at);
    const auto op = static_cast<std::size_t>(ended.op);
    if (is_everyone(ended.member)) {
      for (const std::int32_t next : dependents(op)) {
        arrive_all(op, static_cast<std::size_t>(next), collective_of_everyone(ended.member),
                   ended.at);
      }
      continue;
    }
    const Group& group = shapes_[op].group;
    const auto own = static_cast<std::size_t>(ended.member);
    for (const std::int32_t waiting : dependents_of(op, own)) {
      const auto next = static_cast<std::size_t>(waiting);
      const Group& others = shapes_[next].group;
      const std::size_t member = group.shares_list(others) ? own : others.member(group[own]);
      if (member < others.size()) arrive(next, member, ended.at);
    }
  }
}

Timeline Progress::finish() {
  std::string waiting;
  int count = 0;
  for (std::size_t id = 0; id < unfinished_.size(); ++id) {
    const std::size_t last = follows(id) ? static_cast<std::size_t>(last_in_chain_[id]) : id;
    if (unfinished_[last] == 0 || ++count > 5) continue;
    const Op& op = plan_.ops[id];
    std::int32_t missing = follows(id) ? unfinished_[last] : 0;
    for (std::size_t c = 0; !follows(id) && c < op.collectives(); ++c) {
      missing += absent(id, static_cast<std::int32_t>(c));
    }
    waiting += fmt::format("{}op {} '{}' (layer {}, {} of {} participants missing)",
                           waiting.empty() ? "" : ", ", id, op.label.text(), op.key.layer, missing,
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
