// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/slowdown.h"

#include <algorithm>
#include <utility>

#include "sim/plan/check.h"

namespace moesim {

bool slows(const Plan& plan, const GpuModels& gpus) {
  check_gpus(plan, gpus.size());
  const bool takes = takes_sms(plan);
  if (takes) check_sms(plan, gpus);
  return takes || std::ranges::any_of(gpus, [](const auto& gpu) { return gpu->overlap.any(); });
}

namespace {

bool slows_exchanges(const GpuModels& gpus) {
  return std::ranges::any_of(gpus, [](const auto& gpu) { return gpu->overlap.communication > 1; });
}

bool slows_kernels(const Plan& plan, const GpuModels& gpus) {
  return std::ranges::any_of(gpus, [](const auto& gpu) { return gpu->overlap.compute > 1; }) ||
         takes_sms(plan);
}

}  // namespace

Slowdown::Slowdown(const PricedPlan& plan, const GpuModels& gpus, Events& events,
                   Progress& progress, Network::Ended ended)
    : plan_(plan),
      progress_(progress),
      slows_kernels_(slows_kernels(plan.plan(), gpus)),
      slows_exchanges_(slows_exchanges(gpus)),
      sms_(plan),
      events_(events),
      ended_(std::move(ended)) {
  for (const auto& gpu : gpus) {
    gpus_.push_back({gpu.get(), LostTime(gpu->overlap.communication)});
  }
  for (const ExchangePrice& price : plan.prices()) {
    carries_.push_back(price != nullptr && !price->loads.uses.empty());
  }
  // Copy engines take no multiprocessors, and kernels none of their time.
  for (OpId id(0); id.index() < plan.plan().ops.size(); ++id.value) {
    const Op& op = plan.plan()[id];
    if (op.exchange() == nullptr || !op.exchange()->with_hosts) continue;
    for (std::size_t c = 0; c < op.collectives(); ++c) carries_[plan.price_of(id, c)] = false;
  }
  if (slows_exchanges_) active_.resize(plan.numbers());
}

Progress::KernelEnds Slowdown::kernel_ends(const Plan& plan, const GpuModels& gpus) {
  if (!slows_kernels(plan, gpus)) return Progress::KernelEnds::foretold;
  const bool wait = std::ranges::any_of(gpus, [](const auto& g) { return g->host.takes_time(); });
  return slows_exchanges(gpus) && wait ? Progress::KernelEnds::by_call
                                       : Progress::KernelEnds::by_call_per_chain;
}

template <class Function>
void Slowdown::at_time(Seconds time, Function function) {
  if (time <= events_.now()) return function();
  events_.call(time, [this, function] {
    function();
    settle();
  });
}

GpuId Slowdown::gpu_of(OpId op, std::int32_t participant) const {
  return plan_.plan()[op].group[static_cast<std::size_t>(participant)];
}

void Slowdown::change(GpuId id) {
  if (std::exchange(at(id).changed, true)) return;
  changed_.push_back(id);
}

/// Runs once for all changes of a GPU at one time, because in an exchange one phase leaves a GPU
/// when the next one enters it.
void Slowdown::settle() {
  for (const GpuId id : changed_) {
    at(id).changed = false;
    settle(at(id));
  }
  changed_.clear();
}

/// Looks at the GPU again when its kernels will have ended. If they became slower, the look that is
/// already planned comes early enough: it finds them unfinished and plans the next one.
void Slowdown::settle(Gpu& gpu) {
  const Seconds now = events_.now();
  const GpuId id(&gpu - gpus_.data());
  const std::pair<bool, int> by(gpu.exchanging > 0, sms_.on(id));
  // It left an exchange and entered the next: nothing has changed.
  if (!gpu.foretell && by == gpu.slowed_by) return;
  gpu.slowed_by = by;
  gpu.kernels.run(progress_, gpu.slower, now);
  const KernelFactors before = std::exchange(gpu.slower, factors(gpu, by.second));
  if (slows_exchanges_) slow_exchanges(gpu);
  const bool faster =
      gpu.slower.others < before.others || gpu.slower.bound_by_compute < before.bound_by_compute;
  if (!std::exchange(gpu.foretell, false) && !faster) return;
  const Seconds next = std::max(now, gpu.kernels.end(progress_, gpu.slower));
  if (next >= gpu.awaited) return;
  gpu.awaited = next;
  events_.call(next, [this, id, number = ++gpu.looks] {
    if (at(id).looks == number) look(id);
  });
}

/// How many times as long its kernels take now, because of exchanges.
KernelFactors Slowdown::factors(const Gpu& gpu, int taken) const {
  const int sms = gpu.model->sms;
  const double by_memory = gpu.exchanging > 0 ? gpu.model->overlap.compute : 1;
  const double by_sms = taken > 0 ? static_cast<double>(sms) / std::max(1, sms - taken) : 1;
  return {.bound_by_compute = by_memory * by_sms, .others = by_memory};
}

void Slowdown::slow_exchanges(Gpu& gpu) {
  const Seconds now = events_.now();
  if (gpu.kernels.running() == gpu.lost.loses()) return;
  if (gpu.kernels.running()) return gpu.lost.lose({now, never});
  gpu.lost.stop(now);
  for (const Part& part : std::vector(gpu.slowest)) foretell(part);
}

void Slowdown::join(const Progress::Joined& joined, std::optional<Seconds> carried) {
  const auto& [op, participant, time, all, collective] = joined;
  const std::size_t price = plan_.price_of(op, static_cast<std::size_t>(collective));
  if (price == 0) {  // a kernel
    return at_time(time,
                   [this, op = op, participant = participant] { start_kernel(op, participant); });
  }
  const std::int32_t together = Progress::everyone_of(collective);
  if (carried && !(slows_exchanges_ && carries_[price])) {
    events_.call(*carried, [this, op = op, together] { this->carried(op, together); });
  }
  if (!carries_[price]) return;
  if (!slows_exchanges_) {
    const std::int32_t who = Progress::is_everyone(participant) ? together : participant;
    return at_time(time, [this, op = op, who] { count(op, who, 1); });
  }
  const auto number = static_cast<Number>(plan_.number_of(op, collective));
  if (auto& begun = active_[number]; begun == nullptr) begun = begin(op, collective);
  if (carried) active_[number]->due = carried;
  if (Progress::is_everyone(participant)) {
    return at_time(time, [this, number] { enter_together(number); });
  }
  if (slows_kernels_) {
    const auto [of, place] = plan_.plan()[op].place_of(static_cast<std::size_t>(participant));
    at_time(time, [this, number, place = place] { enter(number, place); });
  }
  if (all) at_time(*all, [this, number] { all_joined(number); });
}

std::unique_ptr<Slowdown::Active> Slowdown::begin(OpId op, std::int32_t collective) {
  auto active = free_.empty() ? std::make_unique<Active>() : std::move(free_.back());
  if (!free_.empty()) free_.pop_back();
  active->op = op;
  active->collective = collective;
  active->participants.clear();
  const Group& group = plan_.plan()[op].group;
  if (const Collectives* apart = plan_.plan()[op].apart()) {
    for (const GpuId place : apart->members[static_cast<std::size_t>(collective)]) {
      active->participants.push_back({group[place.index()]});
    }
  } else {
    for (const GpuId gpu : group) active->participants.push_back({gpu});
  }
  active->working = active->participants.size();
  active->all_joined = active->together = false;
  active->due.reset();
  return active;
}

/// Enters or leaves an exchange, which kernels do not slow.
void Slowdown::count(OpId op, std::int32_t participant, int by) {
  const auto counted = [&](GpuId id) {
    at(id).exchanging += by;
    by > 0 ? sms_.enter(op, id) : sms_.leave(op, id);
    change(id);
  };
  if (!Progress::is_everyone(participant)) return counted(gpu_of(op, participant));
  const Group& group = plan_.plan()[op].group;
  const Collectives* apart = plan_.plan()[op].apart();
  if (apart == nullptr) {
    for (const GpuId id : group) counted(id);
    return;
  }
  const auto in = static_cast<std::size_t>(Progress::collective_of_everyone(participant));
  for (const GpuId place : apart->members[in]) counted(group[place.index()]);
}

void Slowdown::compute(const std::vector<Progress::Computing>& computing) {
  if (!slows_exchanges_) return;
  for (const auto& [gpu, when] : computing) at(gpu).lost.lose(when);
}

void Slowdown::start_kernel(OpId op, std::int32_t participant) {
  const GpuId id = gpu_of(op, participant);
  at(id).kernels.start(progress_, op, participant, events_.now());
  at(id).foretell = true;
  change(id);
}

void Slowdown::enter(OpId exchange, Participant& who) {
  who.inside = true;
  ++at(who.gpu).exchanging;
  sms_.enter(exchange, who.gpu);
  change(who.gpu);
}

void Slowdown::enter(Number exchange, std::int32_t participant) {
  Active* const into = active_[exchange].get();
  if (into == nullptr) return;  // it ended at the time of the join
  enter(into->op, into->participants[static_cast<std::size_t>(participant)]);
}

void Slowdown::enter_together(Number exchange) {
  Active* const into = active_[exchange].get();
  if (into == nullptr) return;
  if (slows_kernels_) {
    for (Participant& who : into->participants) enter(into->op, who);
  }
  all_joined(exchange);
}

void Slowdown::all_joined(Number exchange) {
  Active* const joined = active_[exchange].get();
  if (joined == nullptr) return;
  joined->all_joined = true;
  const Seconds now = events_.now();
  for (Participant& who : joined->participants) who.lost = at(who.gpu).lost.until(now);
  if (!joined->due) return;
  joined->together = true;
  for (Participant& who : joined->participants) who.carried = *joined->due;
  foretell({exchange, 0});
}

/// Ends the kernels of a GPU that are done by now.
void Slowdown::look(GpuId id) {
  Gpu& gpu = at(id);
  const Seconds now = events_.now();
  gpu.awaited = never;
  gpu.foretell = true;
  change(id);
  gpu.kernels.run(progress_, gpu.slower, now);
  if (gpu.kernels.through(now)) {
    const RunningChain ended = std::exchange(gpu.kernels, {});
    ended_(ended.op(), ended.participant());
  }
  settle();
}

}  // namespace moesim
