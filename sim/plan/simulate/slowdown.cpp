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

}  // namespace

Slowdown::Slowdown(const PricedPlan& plan, const GpuModels& gpus, Events& events,
                   Progress& progress, Network::Ended ended)
    : plan_(plan),
      progress_(progress),
      slows_exchanges_(slows_exchanges(gpus)),
      sms_(plan),
      events_(events),
      ended_(std::move(ended)) {
  for (const auto& gpu : gpus) gpus_.push_back({gpu.get()});
  active_.resize(plan.plan().ops.size());
}

Progress::KernelEnds Slowdown::kernel_ends(const GpuModels& gpus) {
  const bool wait = std::ranges::any_of(gpus, [](const auto& g) { return g->host.takes_time(); });
  return slows_exchanges(gpus) && wait ? Progress::KernelEnds::told
                                       : Progress::KernelEnds::told_by_chain;
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
  const double before = gpu.lost.factor();
  gpu.lost.set_factor(events_.now(), gpu.kernels.running() ? gpu.model->overlap.communication : 1);
  if (gpu.lost.factor() >= before) return;
  for (const Part& part : std::vector(gpu.slowest)) foretell(part);
}

void Slowdown::join(const Progress::Joined& joined) {
  const auto& [op, participant, time, all] = joined;
  const ExchangePrice& price = plan_[op];
  if (!price) {
    return at_time(time,
                   [this, op = op, participant = participant] { start_kernel(op, participant); });
  }
  if (price->loads.uses.empty()) return;  // it carries nothing
  if (auto& begun = active_[op.index()]; begun == nullptr) begun = begin(op);
  if (participant == Network::everyone) {
    return at_time(time, [this, op = op] { enter_together(op); });
  }
  at_time(time, [this, op = op, participant = participant] { enter(op, participant); });
  if (all && slows_exchanges_) at_time(*all, [this, op = op] { all_joined(op); });
}

std::unique_ptr<Slowdown::Active> Slowdown::begin(OpId exchange) {
  auto active = free_.empty() ? std::make_unique<Active>() : std::move(free_.back());
  if (!free_.empty()) free_.pop_back();
  active->gpus = plan_.plan()[exchange].group.list();
  active->working = active->gpus.size();
  active->participants.assign(active->working, {});
  active->all_joined = active->together = false;
  return active;
}

void Slowdown::start_kernel(OpId op, std::int32_t participant) {
  const GpuId id = gpu_of(op, participant);
  at(id).kernels.start(progress_, op, participant, events_.now());
  at(id).foretell = true;
  change(id);
}

void Slowdown::enter(OpId exchange, std::int32_t participant) {
  Active* const into = active_[exchange.index()].get();
  if (into == nullptr) return;  // it ended at the time of the join
  into->participants[static_cast<std::size_t>(participant)].inside = true;
  const GpuId id = into->gpus[static_cast<std::size_t>(participant)];
  ++at(id).exchanging;
  sms_.enter(exchange, id);
  change(id);
}

void Slowdown::enter_together(OpId exchange) {
  Active* const into = active_[exchange.index()].get();
  if (into == nullptr) return;
  const Seconds now = events_.now();
  for (std::size_t p = 0; p < into->gpus.size(); ++p) {
    const GpuId id = into->gpus[p];
    Gpu& gpu = at(id);
    into->participants[p].inside = true;
    if (slows_exchanges_) into->participants[p].lost = gpu.lost.until(now);
    ++gpu.exchanging;
    sms_.enter(exchange, id);
    change(id);
  }
  into->all_joined = slows_exchanges_;
}

void Slowdown::all_joined(OpId exchange) {
  Active* const joined = active_[exchange.index()].get();
  if (joined == nullptr) return;
  joined->all_joined = true;
  for (std::size_t p = 0; p < joined->gpus.size(); ++p) {
    joined->participants[p].lost = at(joined->gpus[p]).lost.until(events_.now());
  }
}

void Slowdown::carried(OpId exchange, std::int32_t participant) {
  Active* const moved = active_[exchange.index()].get();
  if (moved == nullptr) return ended_(exchange, participant);  // it carries nothing
  moved->together = participant == Network::everyone;
  const Part part{exchange, moved->together ? 0 : participant};
  slows_exchanges_ ? start_rest(part) : end_exchange(part);
  settle();
}

/// The first participant of a part, and the one after its last.
std::pair<std::int32_t, std::int32_t> Slowdown::participants(const Part& part) const {
  const Active& moved = *active_[part.exchange.index()];
  const auto count = static_cast<std::int32_t>(moved.participants.size());
  return {part.first, moved.together ? count : part.first + 1};
}

Slowdown::Participant& Slowdown::first_of(const Part& part) {
  return active_[part.exchange.index()]->participants[static_cast<std::size_t>(part.first)];
}

/// Starts the rest of the work: the time that each GPU has lost since all had joined.
void Slowdown::start_rest(const Part& part) {
  Active& moved = *active_[part.exchange.index()];
  const Seconds now = events_.now();
  const auto [first, last] = participants(part);
  for (std::int32_t p = first; p < last; ++p) {
    const auto place = static_cast<std::size_t>(p);
    Participant& who = moved.participants[place];
    who.carried = now;
    if (!moved.all_joined) who.lost = at(moved.gpus[place]).lost.until(now);
  }
  look(part);
}

Seconds Slowdown::end_of_rest(const Part& part, std::int32_t participant) {
  const Active& moved = *active_[part.exchange.index()];
  const auto place = static_cast<std::size_t>(participant);
  const Participant& who = moved.participants[place];
  return at(moved.gpus[place]).lost.end_of(who.carried, who.lost, events_.now());
}

Slowdown::LastEnd Slowdown::last_end(const Part& part) {
  const auto [first, last] = participants(part);
  LastEnd result{first, Seconds(0)};
  for (std::int32_t p = first; p < last; ++p) {
    const Seconds its_end = end_of_rest(part, p);
    if (its_end > result.at) result = {p, its_end};
  }
  return result;
}

/// Plans a look at the part's end. If exchanges become faster on the GPU that ends last, the look
/// is planned anew. If they become slower anywhere, it comes too early, and another one follows.
void Slowdown::await(const Part& part, const LastEnd& last) {
  Participant& looks = first_of(part);
  const Active& moved = *active_[part.exchange.index()];
  auto& parts = at(moved.gpus[static_cast<std::size_t>(last.participant)]).slowest;
  if (std::ranges::find(parts, part) == parts.end()) parts.push_back(part);
  if (last.at >= looks.awaited) return;
  looks.awaited = std::max(last.at, events_.now());
  const std::uint32_t number = ++looks.looks;
  // What is most often awaited is small enough for a function without memory of its own.
  if (moved.together) {
    events_.call(looks.awaited, [this, exchange = part.exchange, number] {
      look_again({exchange, 0}, number);
    });
  } else {
    events_.call(looks.awaited, [this, part, number] { look_again(part, number); });
  }
}

void Slowdown::look_again(const Part& part, std::uint32_t number) {
  if (active_[part.exchange.index()] == nullptr || first_of(part).looks != number) return;
  look(part);
  settle();
}

/// Ends the part if all its participants have done their work.
void Slowdown::look(const Part& part) {
  first_of(part).awaited = never;
  const LastEnd last = last_end(part);
  last.at > events_.now() ? await(part, last) : end_exchange(part);
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

void Slowdown::end_exchange(const Part& part) {
  Active& ending = *active_[part.exchange.index()];
  const bool together = ending.together;
  ++first_of(part).looks;  // planned looks have an older number and do nothing
  const auto [first, last] = participants(part);
  for (std::int32_t p = first; p < last; ++p) leave(part, p);
  ending.working -= static_cast<std::size_t>(last - first);
  if (ending.working == 0) free_.push_back(std::move(active_[part.exchange.index()]));
  ended_(part.exchange, together ? Network::everyone : part.first);
}

void Slowdown::leave(const Part& part, std::int32_t participant) {
  const Active& left = *active_[part.exchange.index()];
  const auto place = static_cast<std::size_t>(participant);
  const GpuId id = left.gpus[place];
  std::erase(at(id).slowest, part);
  if (!left.participants[place].inside) return;
  --at(id).exchanging;
  sms_.leave(part.exchange, id);
  change(id);
}

}  // namespace moesim
