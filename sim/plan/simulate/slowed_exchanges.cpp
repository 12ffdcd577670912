// SPDX-License-Identifier: Apache-2.0
// Slowdown: exchanges from when the network has carried them.
#include <algorithm>
#include <utility>

#include "sim/plan/simulate/slowdown.h"

namespace moesim {

void Slowdown::carried(OpId exchange, std::int32_t participant) {
  if (!slows_exchanges_) {
    const std::int32_t collective =
        Progress::is_everyone(participant)
            ? Progress::collective_of_everyone(participant)
            : plan_.plan()[exchange].place_of(static_cast<std::size_t>(participant)).collective;
    const auto in = static_cast<std::size_t>(collective);
    if (carries_[plan_.price_of(exchange, in)]) count(exchange, participant, -1);
    ended_(exchange, participant);
    return settle();
  }
  const bool together = Progress::is_everyone(participant);
  const auto [collective, place] =
      together ? Collectives::Place{Progress::collective_of_everyone(participant), 0}
               : plan_.plan()[exchange].place_of(static_cast<std::size_t>(participant));
  const auto number = static_cast<Number>(plan_.number_of(exchange, collective));
  Active* const moved = active_[number].get();
  if (moved == nullptr) return ended_(exchange, participant);  // it carries nothing
  moved->together = together;
  const Part part{number, place};
  start_rest(part);
  settle();
}

std::span<Slowdown::Participant> Slowdown::participants(const Part& part) {
  Active& moved = *active_[part.exchange];
  const std::span from =
      std::span(moved.participants).subspan(static_cast<std::size_t>(part.first));
  return moved.together ? from : from.first(1);
}

Slowdown::Participant& Slowdown::first_of(const Part& part) {
  return active_[part.exchange]->participants[static_cast<std::size_t>(part.first)];
}

/// Starts the rest of the work: the time that each GPU has lost since all had joined.
void Slowdown::start_rest(const Part& part) {
  const bool all_joined = active_[part.exchange]->all_joined;
  const Seconds now = events_.now();
  for (Participant& who : participants(part)) {
    who.carried = now;
    if (!all_joined) who.lost = at(who.gpu).lost.until(now);
  }
  look(part);
}

Slowdown::LastEnd Slowdown::last_end(const Part& part) {
  const std::span<const Participant> all = participants(part);
  const Seconds now = events_.now();
  LastEnd result{all.front().gpu, Seconds(0)};
  for (const Participant& who : all) {
    const Seconds its_end = at(who.gpu).lost.end_of(who.carried, who.lost, now);
    if (its_end > result.at) result = {who.gpu, its_end};
  }
  return result;
}

/// Of what its GPUs lose: how often that has changed.
std::uint32_t Slowdown::changes_of(const Part& part) {
  std::uint32_t changes = 0;
  for (const Participant& who : participants(part)) changes += at(who.gpu).lost.changes();
  return changes;
}

/// Plans a look at the part's end. If exchanges become faster on the GPU that ends last, the look
/// is planned anew, unless kernels end as foretold. If they become slower anywhere, it comes too
/// early, and another one follows.
void Slowdown::await(const Part& part, const LastEnd& last) {
  Participant& looks = first_of(part);
  const Active& moved = *active_[part.exchange];
  auto& parts = at(last.gpu).slowest;
  if (slows_kernels_ && std::ranges::find(parts, part) == parts.end()) {
    parts.push_back(part);
  }
  if (last.at >= looks.awaited) return;
  looks.awaited = std::max(last.at, events_.now());
  looks.changes = changes_of(part);
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
  if (active_[part.exchange] == nullptr || first_of(part).looks != number) return;
  // It ends as foretold if nothing has changed.
  first_of(part).changes == changes_of(part) ? end_exchange(part) : look(part);
  settle();
}

/// Ends the part if all its participants have done their work.
void Slowdown::look(const Part& part) {
  first_of(part).awaited = never;
  const LastEnd last = last_end(part);
  last.at > events_.now() ? await(part, last) : end_exchange(part);
}

void Slowdown::end_exchange(const Part& part) {
  Active& ending = *active_[part.exchange];
  const bool together = ending.together;
  ++first_of(part).looks;  // planned looks have an older number and do nothing
  const std::span<const Participant> all = participants(part);
  if (slows_kernels_) {
    for (const Participant& who : all) leave(part, ending.op, who);
  }
  ending.working -= all.size();
  const OpId op = ending.op;
  const std::int32_t who =
      together ? Progress::everyone_of(ending.collective)
               : static_cast<std::int32_t>(plan_.plan()[op].group.member(all.front().gpu));
  if (ending.working == 0) free_.push_back(std::move(active_[part.exchange]));
  ended_(op, who);
}

void Slowdown::leave(const Part& part, OpId op, const Participant& who) {
  Gpu& gpu = at(who.gpu);
  std::erase(gpu.slowest, part);
  if (!who.inside) return;
  --gpu.exchanging;
  sms_.leave(op, who.gpu);
  change(who.gpu);
}

}  // namespace moesim
