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

/// The first participant of a part, and the one after its last.
std::pair<std::int32_t, std::int32_t> Slowdown::participants(const Part& part) const {
  const Active& moved = *active_[part.exchange];
  const auto count = static_cast<std::int32_t>(moved.participants.size());
  return {part.first, moved.together ? count : part.first + 1};
}

Slowdown::Participant& Slowdown::first_of(const Part& part) {
  return active_[part.exchange]->participants[static_cast<std::size_t>(part.first)];
}

/// Starts the rest of the work: the time that each GPU has lost since all had joined.
void Slowdown::start_rest(const Part& part) {
  Active& moved = *active_[part.exchange];
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
  const Active& moved = *active_[part.exchange];
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
  const Active& moved = *active_[part.exchange];
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
  if (active_[part.exchange] == nullptr || first_of(part).looks != number) return;
  look(part);
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
  const auto [first, last] = participants(part);
  for (std::int32_t p = first; p < last; ++p) leave(part, p);
  ending.working -= static_cast<std::size_t>(last - first);
  const OpId op = ending.op;
  const std::int32_t who = together ? Progress::everyone_of(ending.collective)
                                    : static_cast<std::int32_t>(plan_.plan()[op].group.member(
                                          ending.gpus[static_cast<std::size_t>(part.first)]));
  if (ending.working == 0) free_.push_back(std::move(active_[part.exchange]));
  ended_(op, who);
}

void Slowdown::leave(const Part& part, std::int32_t participant) {
  const Active& left = *active_[part.exchange];
  const auto place = static_cast<std::size_t>(participant);
  const GpuId id = left.gpus[place];
  std::erase(at(id).slowest, part);
  if (!left.participants[place].inside) return;
  --at(id).exchanging;
  sms_.leave(left.op, id);
  change(id);
}

}  // namespace moesim
