// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/simulate/slowdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "sim/plan/check.h"

namespace moesim {
namespace {

void check_sms(const Plan& plan, OpId id, const GpuModel& gpu) {
  const int taken = sms_of(plan, plan[id]);
  if (taken < gpu.sms) return;
  const std::string takes = fmt::format("{} takes {} multiprocessors, but GPU model '{}' ",
                                        describe(plan, id), taken, gpu.name);
  if (gpu.sms > 0) throw Error(takes + fmt::format("has {}", gpu.sms));
  throw Error(takes + "does not say how many it has", "add 'sms' to it");
}

}  // namespace

bool slows(const Plan& plan, const GpuModels& gpus) {
  check_gpus(plan, gpus.size());
  const bool takes = takes_sms(plan);
  for (OpId id(0); takes && id.index() < plan.ops.size(); ++id.value) {
    if (sms_of(plan, plan[id]) == 0) continue;
    for (const GpuId gpu : plan[id].group) check_sms(plan, id, *gpus[gpu.index()]);
  }
  return takes || std::ranges::any_of(gpus, [](const auto& gpu) { return gpu->overlap.any(); });
}

Slowdown::Slowdown(const PricedPlan& plan, const GpuModels& gpus, Events& events,
                   Network::Ended ended)
    : plan_(plan),
      takes_sms_(takes_sms(plan.plan())),
      slows_exchanges_(std::ranges::any_of(
          gpus, [](const auto& gpu) { return gpu->overlap.communication > 1; })),
      sms_(plan.plan()),
      events_(events),
      ended_(std::move(ended)) {
  for (const auto& gpu : gpus) gpus_.push_back({gpu.get(), {}, {}, {}});
  bounds_.resize(plan.plan().ops.size());
  active_.resize(plan.plan().ops.size());
}

template <class Function>
void Slowdown::at_time(Seconds time, Function function) {
  time <= events_.now() ? function() : events_.call(time, std::move(function));
}

/// By what exchanges cost them now.
void Slowdown::slow_kernels(Gpu& gpu) {
  const double by_memory = gpu.exchanging > 0 ? gpu.model->overlap.compute : 1;
  const int sms = gpu.model->sms, taken = sms_.on(GpuId(&gpu - gpus_.data()));
  const double by_sms = taken > 0 ? static_cast<double>(sms) / std::max(1, sms - taken) : 1;
  gpu.other_kernels.set_factor(events_.now(), by_memory);
  gpu.bound_by_compute.set_factor(events_.now(), by_memory * by_sms);
}

void Slowdown::slow_exchanges(Gpu& gpu) {
  gpu.exchanges.set_factor(events_.now(), gpu.computing > 0 ? gpu.model->overlap.communication : 1);
}

GpuId Slowdown::gpu_of(OpId op, std::int32_t participant) const {
  return plan_.plan()[op].group[static_cast<std::size_t>(participant)];
}

bool Slowdown::is_bound_by_compute(OpId id, std::int32_t participant) {
  if (!takes_sms_) return false;
  const GpuModel* model = at(gpu_of(id, participant)).model;
  Bound& known = bounds_[id.index()];
  if (known.model == model) return known.by_compute;
  const Op& op = plan_.plan()[id];
  const Kernels& kernels = *op.kernels();
  const bool by_compute = model->bound(kernels.of(static_cast<std::size_t>(participant)),
                                       op.key.type()) == KernelBound::compute;
  if (kernels.each().size() == 1) known = {model, by_compute};  // of all participants
  return by_compute;
}

void Slowdown::join(const Progress::Joined& joined, Seconds duration) {
  const auto& [op, participant, time, all] = joined;
  const ExchangePrice& price = plan_[op];
  if (!price) {
    return at_time(time, [this, op = op, participant = participant, duration] {
      start_kernel(op, participant, duration);
    });
  }
  if (price->loads.uses.empty()) return;  // it carries nothing
  if (active(op) == nullptr) {
    Active& begun = active_[op.index()];
    begun.working = plan_.plan()[op].group.size();
    begun.participants.resize(begun.working);
  }
  at_time(time, [this, op = op, participant = participant] { enter(op, participant); });
  if (all && slows_exchanges_) at_time(*all, [this, op = op] { all_joined(op); });
}

void Slowdown::start_kernel(OpId op, std::int32_t participant, Seconds duration) {
  const GpuId id = gpu_of(op, participant);
  Gpu& gpu = at(id);
  const Seconds now = events_.now();
  ++gpu.computing;
  slow_exchanges(gpu);
  SlowedWork& kernels =
      is_bound_by_compute(op, participant) ? gpu.bound_by_compute : gpu.other_kernels;
  kernels.add({op, participant, now + duration, kernels.lost(now)});
  changed(id);
}

/// Kernels end later by it: the look that is awaited comes early enough.
void Slowdown::enter(OpId exchange, std::int32_t participant) {
  Active* const into = active(exchange);
  if (into == nullptr) return;  // through at the very time when it joined
  into->participants[static_cast<std::size_t>(participant)].inside = true;
  const GpuId id = gpu_of(exchange, participant);
  Gpu& gpu = at(id);
  ++gpu.exchanging;
  sms_.enter(exchange, id);
  slow_kernels(gpu);
}

void Slowdown::all_joined(OpId exchange) {
  Active* const joined = active(exchange);
  if (joined == nullptr) return;
  joined->all_joined = true;
  std::int32_t participant = 0;
  for (Participant& p : joined->participants) {
    p.lost = at(gpu_of(exchange, participant++)).exchanges.lost(events_.now());
  }
}

void Slowdown::carried(OpId exchange, std::int32_t participant) {
  Active* const moved = active(exchange);
  if (moved == nullptr) return ended_(exchange, participant);  // it carries nothing
  moved->together = participant == Network::everyone;
  const auto carried_for = [&](std::int32_t p) {
    slows_exchanges_ ? add_work(exchange, p) : end_exchange(exchange, p);
  };
  if (!moved->together) return carried_for(participant);
  const auto count = static_cast<std::int32_t>(moved->participants.size());
  for (std::int32_t p = 0; p < count; ++p) carried_for(p);
}

/// The rest of the work: what the GPU has lost since all had joined.
void Slowdown::add_work(OpId exchange, std::int32_t participant) {
  const Active& moved = active_[exchange.index()];
  const GpuId id = gpu_of(exchange, participant);
  const Seconds now = events_.now();
  const Seconds before = moved.all_joined
                             ? moved.participants[static_cast<std::size_t>(participant)].lost
                             : at(id).exchanges.lost(now);
  at(id).exchanges.add({exchange, participant, now, before});
  changed(id);
}

void Slowdown::end_work(GpuId id) {
  Gpu& gpu = at(id);
  const Seconds now = events_.now();
  std::vector<SlowedWork::Item> kernels = gpu.bound_by_compute.take_ended(now);
  std::ranges::copy(gpu.other_kernels.take_ended(now), std::back_inserter(kernels));
  const std::vector<SlowedWork::Item> exchanges = gpu.exchanges.take_ended(now);
  gpu.computing -= static_cast<int>(kernels.size());
  slow_exchanges(gpu);
  changed(id);
  for (const SlowedWork::Item& kernel : kernels) ended_(kernel.op, kernel.participant);
  for (const SlowedWork::Item& item : exchanges) end_exchange(item.op, item.participant);
}

void Slowdown::end_exchange(OpId exchange, std::int32_t participant) {
  Active& ending = active_[exchange.index()];
  const bool last = --ending.working == 0;
  const bool together = ending.together;
  if (!together) leave(exchange, participant);
  if (last && together) {
    const auto count = static_cast<std::int32_t>(ending.participants.size());
    for (std::int32_t p = 0; p < count; ++p) leave(exchange, p);
  }
  if (last) ending = {};
  if (last || !together) ended_(exchange, together ? Network::everyone : participant);
}

void Slowdown::leave(OpId exchange, std::int32_t participant) {
  const Active& left = active_[exchange.index()];
  if (!left.participants[static_cast<std::size_t>(participant)].inside) return;
  const GpuId id = gpu_of(exchange, participant);
  Gpu& gpu = at(id);
  --gpu.exchanging;
  sms_.leave(exchange, id);
  slow_kernels(gpu);
  changed(id);
}

/// Looks again when the GPU's next work ends, or before: what is then found to take longer is
/// looked at once more.
void Slowdown::changed(GpuId id) {
  Gpu& gpu = at(id);
  const Seconds now = events_.now();
  const Seconds next = std::min(
      {gpu.bound_by_compute.next(now), gpu.other_kernels.next(now), gpu.exchanges.next(now)});
  if (next >= gpu.awaited) return;
  gpu.awaited = next;
  events_.call(next, [this, id, next] {
    if (at(id).awaited != next) return;
    at(id).awaited = never;
    end_work(id);
  });
}

}  // namespace moesim
