// SPDX-License-Identifier: Apache-2.0
// What the ops of a plan wait for, in one pass over them. What kernels of a plan take, worked out
// once for all ops that share them.
#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/plan/simulate/progress.h"
#include "sim/plan/waits.h"

namespace moesim {
namespace {

/// Kernels, the GPUs that run them, and as what. Few are of the same kernels.
using SharedKernels = std::tuple<const Kernel*, const std::vector<GpuId>*, OpType>;

struct HashOfKernels {
  std::size_t operator()(const SharedKernels& shared) const {
    return std::hash<const Kernel*>()(std::get<0>(shared));
  }
};

}  // namespace

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
    earlier.erase(std::unique(earlier.begin(), earlier.end()), earlier.end());
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
/// the ops that wait for its last. A host that waits learns of the end first.
bool Progress::may_chain(std::size_t earlier, std::size_t op) const {
  const Op &first = plan_.ops[earlier], &second = plan_.ops[op];
  if (dependents(earlier).size() != 1) return false;
  if (runs_by_itself_[earlier] != runs_by_itself_[op]) return false;
  if (is_computing(first) != is_computing(second)) return false;
  if (!runs_by_itself_[op]) {
    if (kernel_ends_ != KernelEnds::by_call_per_chain || host_.waits_for(earlier)) return false;
  }
  return first.stream == second.stream;
}

/// For ops before it, on the same GPUs.
bool Progress::waits_as_one(std::size_t op) const {
  return std::ranges::all_of(waited_for(op), [&](std::int32_t earlier) {
    return std::cmp_less(earlier, op) &&
           plan_.ops[static_cast<std::size_t>(earlier)].group == plan_.ops[op].group;
  });
}

void Progress::find_chains() {
  const std::size_t ops = plan_.ops.size();
  next_in_chain_.assign(ops, -1);
  shapes_.reserve(ops);
  unfinished_.reserve(ops);
  first_absent_.reserve(ops);
  first_wait_.reserve(ops);
  std::size_t members = 0;
  for (std::size_t op = 0; op < ops; ++op) {
    const std::size_t count = plan_.ops[op].group.size();
    unfinished_.push_back(static_cast<std::int32_t>(count));
    first_absent_.push_back(static_cast<std::int32_t>(absent_.size()));
    const Collectives* apart = plan_.ops[op].apart();
    shapes_.push_back({plan_.ops[op].group, apart, plan_.ops[op].exchange() != nullptr,
                       is_computing(plan_.ops[op])});
    if (apart == nullptr) {
      absent_.push_back(unfinished_[op]);
    } else {
      for (const auto& places : apart->members) {
        absent_.push_back(static_cast<std::int32_t>(places.size()));
      }
    }
    if (waited_for(op).size() == 1 && waits_as_one(op)) {
      const auto earlier = static_cast<std::size_t>(waited_for(op)[0]);
      if (may_chain(earlier, op)) next_in_chain_[earlier] = static_cast<std::int32_t>(op);
      first_wait_.push_back(-1);
    } else {
      first_wait_.push_back(static_cast<std::int64_t>(members));
      members += count;
    }
  }
  waits_.resize(members);
  std::int64_t times = 0;
  for (const std::int32_t count : unfinished_) times += count;
  many_times_ = times >= 1 << 20;
  last_in_chain_.resize(ops);
  for (std::size_t op = ops; op-- > 0;) {
    const std::int32_t next = next_in_chain_[op];
    last_in_chain_[op] =
        next < 0 ? static_cast<std::int32_t>(op) : last_in_chain_[static_cast<std::size_t>(next)];
  }
}

void Progress::divide_dependents() {
  constexpr std::size_t many = 16;
  for (std::size_t op = 0; op < plan_.ops.size(); ++op) {
    const auto all = dependents(op);
    const Group& group = shapes_[op].group;
    std::size_t members = 0;
    for (const std::int32_t next : all)
      members += shapes_[static_cast<std::size_t>(next)].group.size();
    if (all.size() < many || members > 2 * group.size()) continue;
    DividedDependents own{std::vector<std::size_t>(group.size() + 2), {}};
    const auto for_each_wait = [&](const auto& visit) {
      for (const std::int32_t next : all) {
        for_each_common(group, shapes_[static_cast<std::size_t>(next)].group,
                        [&](std::size_t member, std::size_t) { visit(member, next); });
      }
    };
    // Counted one place late, as dependents are.
    for_each_wait([&](std::size_t member, std::int32_t) { ++own.first[member + 2]; });
    std::partial_sum(own.first.begin(), own.first.end(), own.first.begin());
    own.ops.resize(own.first.back());
    for_each_wait(
        [&](std::size_t member, std::int32_t next) { own.ops[own.first[member + 1]++] = next; });
    divided_.resize(plan_.ops.size(), -1);
    divided_[op] = static_cast<std::int32_t>(each_.size());
    each_.push_back(std::move(own));
  }
}

/// Hosts may let an op start later than what it waits for has ended.
void Progress::make_timeline(ExchangeEnds exchange_ends) {
  std::vector<Intervals::Follows> all(plan_.ops.size());
  for (std::size_t op = 0; op < all.size(); ++op) {
    Intervals::Follows& of = all[op];
    const bool exchange = shapes_[op].exchange;
    of.common_end = exchange && exchange_ends == ExchangeEnds::together;
    if (host_.takes_time()) continue;
    const auto waits = waited_for(op);
    const bool two = exchange && waits.size() == 2 && waits_as_one(op);
    if (first_wait_[op] < 0 || two) of.starts_with_end_of = OpId(waits[0]);
    if (two) of.and_of = OpId(waits[1]);
    if (!follows(op)) continue;
    of.takes = durations_.of_all(op);
    of.takes_by_member = !durations_.agree(op);
  }
  timeline_.ops.add_ops(plan_, all);
}

std::vector<Progress::Member> Progress::count_waits() {
  std::vector<Member> free;
  for (std::size_t op = 0; op < plan_.ops.size(); ++op) {
    if (first_wait_[op] < 0) continue;
    const std::span waits = std::span(waits_).subspan(static_cast<std::size_t>(first_wait_[op]),
                                                      shapes_[op].group.size());
    std::int32_t of_all = 0;  // that all members wait for
    for (const std::int32_t earlier : waited_for(op)) {
      const Group& group = shapes_[static_cast<std::size_t>(earlier)].group;
      if (group.shares_list(shapes_[op].group)) {
        ++of_all;
        continue;
      }
      for_each_common(group, shapes_[op].group,
                      [&](std::size_t, std::size_t member) { ++waits[member]; });
    }
    if (of_all > 0) {
      for (std::int32_t& count : waits) count += of_all;
      continue;
    }
    for (std::size_t m = 0; m < waits.size(); ++m) {
      if (waits[m] == 0) free.push_back({op, static_cast<std::int32_t>(m)});
    }
  }
  first_waited_for_ = {};
  waited_for_ = {};
  return free;
}

Progress::Durations::Durations(const Plan& plan, const GpuModels& gpus, bool bounds) {
  const auto model_of = [&](GpuId gpu) { return gpus[gpu.index()].get(); };
  const bool alike = std::ranges::all_of(gpus, [&](const auto& gpu) { return gpu == gpus[0]; });
  // Ops that share kernels have the same times, on GPUs that differ if they share the group, too.
  std::unordered_map<SharedKernels, OfOp, HashOfKernels> known;
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
        const GpuModel& gpu = *model_of(op.group[m]);
        const Kernel& kernel = kernels->of(m);
        times_.push_back(gpu.time(kernel, op.key.type()));
        by_compute_.push_back(bounds && !std::holds_alternative<HostWork>(kernel) &&
                              gpu.bound(kernel, op.key.type()) == KernelBound::compute);
      }
    }
    ops_.push_back(same->second);
  }
}

}  // namespace moesim
