// SPDX-License-Identifier: Apache-2.0
#include "sim/report/time_bounds.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "sim/base/ordering.h"
#include "sim/plan/simulate/progress.h"
#include "sim/report/iteration_metrics.h"

namespace moesim {
namespace {

/// GPUs in sets that grow together.
class GpuSets {
 public:
  explicit GpuSets(int gpus) : parent_(static_cast<std::size_t>(gpus)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  void join(const Group& group) {
    for (const GpuId gpu : group) parent_[root(gpu.index())] = root(group.front().index());
  }
  std::size_t root(std::size_t gpu) {
    while (parent_[gpu] != gpu) gpu = parent_[gpu] = parent_[parent_[gpu]];
    return gpu;
  }

 private:
  std::vector<std::size_t> parent_;
};

/// [GPU] the time of its kernels on the compute stream.
std::vector<Seconds> compute_of_gpus(const Plan& plan, const GpuModels& gpus) {
  std::vector<Seconds> times(gpus.size());
  for (const Op& op : plan.ops) {
    if (op.kernels() == nullptr || op.stream != Stream::compute) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const std::size_t gpu = op.group[m].index();
      times[gpu] += gpus[gpu]->time(op.kernels()->of(m), op.key.type());
    }
  }
  return times;
}

/// The largest of the means over sets of GPUs.
Seconds balanced(const Plan& plan, const std::vector<Seconds>& compute) {
  GpuSets sets(plan.gpus);
  for (const Op& op : plan.ops) {
    if (op.exchange() == nullptr || !carries_tokens(op.stream)) continue;
    const Collectives* apart = op.apart();
    if (apart == nullptr) sets.join(op.group);
    for (std::size_t c = 0; apart != nullptr && c < op.collectives(); ++c) {
      for (const GpuId place : apart->members[c]) {
        sets.join({op.group[apart->members[c].front().index()], op.group[place.index()]});
      }
    }
  }
  std::map<std::size_t, std::pair<Seconds, int>> sums;
  for (std::size_t gpu = 0; gpu < compute.size(); ++gpu) {
    auto& [time, members] = sums[sets.root(gpu)];
    time += compute[gpu];
    ++members;
  }
  Seconds largest;
  for (const auto& [root, sum] : sums) {
    largest = std::max(largest, sum.first * (1.0 / sum.second));
  }
  return largest;
}

/// The longest time of all bytes on a link, at the most that it yields to one of the exchanges.
Seconds longest_link(const PricedPlan& plan) {
  const std::vector<Link>& links = plan.topology().links();
  std::vector<std::int64_t> bytes(links.size());
  std::vector<double> most(links.size(), 1);
  for (OpId id(0); id.index() < plan.plan().ops.size(); ++id.value) {
    if (!plan[id]) continue;
    for (const ExchangePrice& price : plan.prices_of(id)) {
      for (const LinkUse& use : price->loads.uses) {
        bytes[use.link.index()] += use.bytes.value;
        most[use.link.index()] = std::max(most[use.link.index()], use.part);
      }
    }
  }
  Seconds longest;
  for (std::size_t l = 0; l < links.size(); ++l) {
    longest = std::max(longest, Bytes(bytes[l]) / (links[l].bandwidth * most[l]));
  }
  return longest;
}

/// The longest time that a GPU spends in the exchanges of one stream, were each by itself.
Seconds longest_stream(const PricedPlan& plan) {
  std::vector<Seconds> times(static_cast<std::size_t>(plan.plan().gpus) * stream_count);
  for (OpId id(0); id.index() < plan.plan().ops.size(); ++id.value) {
    if (!plan[id]) continue;
    const Op& op = plan.plan()[id];
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const auto in = static_cast<std::size_t>(op.place_of(m).collective);
      times[op.group[m].index() * stream_count + static_cast<std::size_t>(op.stream)] +=
          plan.prices_of(id)[in]->alone.total();
    }
  }
  return times.empty() ? Seconds(0) : std::ranges::max(times);
}

/// Ends every participant of an exchange once all that it shares bytes with have joined.
class FreeExchanges {
 public:
  FreeExchanges(const Plan& plan, Progress& progress) : plan_(plan), progress_(progress) {}

  void join(const Progress::Joined& joined) {
    const auto [place, fresh] = waiting_.try_emplace(joined.op);
    std::vector<Participant>& all = place->second;
    if (fresh) all = participants(plan_[joined.op]);
    for (const std::size_t m : all[static_cast<std::size_t>(joined.participant)].peers) {
      Participant& peer = all[m];
      peer.at = std::max(peer.at, joined.at);
      --peer.missing;
      if (peer.missing == 0) progress_.end(joined.op, static_cast<std::int32_t>(m), peer.at);
    }
    const auto waits = [](const Participant& one) { return one.missing > 0; };
    if (std::ranges::none_of(all, waits)) waiting_.erase(place);
  }

 private:
  struct Participant {
    std::vector<std::size_t> peers;  // itself among them
    std::size_t missing = 0;         // peers that have not joined
    Seconds at;
  };
  static std::vector<Participant> participants(const Op& op) {
    std::vector<Participant> all(op.group.size());
    for (std::size_t m = 0; m < all.size(); ++m) all[m].peers = {m};
    op.traffic().for_each([&](GpuId from, GpuId to, Bytes) {
      if (from == to) return;
      all[op.group.member(from)].peers.push_back(op.group.member(to));
      all[op.group.member(to)].peers.push_back(op.group.member(from));
    });
    for (Participant& one : all) {
      sort_once(one.peers);
      one.missing = one.peers.size();
    }
    return all;
  }

  const Plan& plan_;
  Progress& progress_;
  std::map<OpId, std::vector<Participant>> waiting_;
};

}  // namespace

void TimeBounds::add(const TimeBounds& other) {
  balance += other.balance;
  compute += other.compute;
  port += other.port;
  no_communication += other.no_communication;
  no_bubble += other.no_bubble;
}

TimeBounds TimeBounds::operator*(double factor) const {
  return {balance * factor, compute * factor, port * factor, no_communication * factor,
          no_bubble * factor};
}

Timeline without_exchanges(const Plan& plan, const GpuModels& gpus, bool together) {
  Progress progress(plan, gpus);
  FreeExchanges apart(plan, progress);
  std::vector<Progress::Joined> joined;
  for (progress.take_joined(joined); !joined.empty(); progress.take_joined(joined)) {
    for (const Progress::Joined& one : joined) {
      if (!together) {
        apart.join(one);
      } else if (one.all) {
        progress.end(one.op, Progress::everyone_of(one.collective), *one.all);
      }
    }
  }
  return progress.finish();
}

Seconds least_time(const PricedPlan& plan, const GpuModels& gpus) {
  Progress progress(plan.plan(), gpus);
  std::vector<Progress::Joined> joined;
  for (progress.take_joined(joined); !joined.empty(); progress.take_joined(joined)) {
    for (const Progress::Joined& one : joined) {
      if (!one.all) continue;
      const ExchangePrice& price = plan.prices_of(one.op)[static_cast<std::size_t>(one.collective)];
      progress.end(one.op, Progress::everyone_of(one.collective), *one.all + price->alone.total());
    }
  }
  return std::max(progress.finish().makespan, longest_link(plan));
}

TimeBounds time_bounds(const PricedPlan& plan, const Timeline& timeline, const GpuModels& gpus,
                       ExchangeRules rules) {
  const std::vector<Seconds> compute = compute_of_gpus(plan.plan(), gpus);
  TimeBounds bounds;
  bounds.balance = balanced(plan.plan(), compute);
  if (!compute.empty()) bounds.compute = std::ranges::max(compute);
  if (rules.links_shared) bounds.port = longest_link(plan);
  if (rules.together) bounds.port = std::max(bounds.port, longest_stream(plan));
  bounds.no_communication = without_exchanges(plan.plan(), gpus, rules.together).makespan;
  bounds.no_bubble = iteration_times(plan.plan(), timeline, hosts_take_time(gpus)).busiest;
  return bounds;
}

}  // namespace moesim
