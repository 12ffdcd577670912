// SPDX-License-Identifier: Apache-2.0
// What lost ranks do to the requests of a serving run.
#include <algorithm>
#include <utility>

#include "sim/serving/deployment/serving_loop.h"

namespace moesim {

std::pair<std::size_t, std::size_t> ServingLoop::pool_of(std::size_t at) const {
  const std::size_t prompts = prompt_places();
  return at < prompts ? std::pair(std::size_t{0}, prompts)
                      : std::pair(prompts, places_.size() - prompts);
}

void ServingLoop::send_on(std::size_t from) {
  if (places_[from].instance->is_up()) return;
  const auto [first, count] = pool_of(from);
  const auto up = [](const ServingPlace& place) { return place.instance->is_up(); };
  const auto pool = places_.begin() + static_cast<std::ptrdiff_t>(first);
  if (std::none_of(pool, pool + static_cast<std::ptrdiff_t>(count), up)) return;
  Router& router = from < prompt_places() ? router_ : decode_router_;
  for (ServingSequence& sequence : places_[from].instance->take_waiting()) {
    const std::size_t to = choose(router, first, count, sequence.request);
    if (places_[from].unshown.erase(sequence.request) > 0) {
      places_[to].unshown.insert(sequence.request);
    }
    if (std::exchange(sequence.carried, 0) > 0) count_broken(sequence.request);
    submit(to, std::move(sequence));
  }
}

void ServingLoop::count_broken(std::int64_t number) {
  ++run_.broken_transfers;
  run_.broken_tokens += request(number).input;
}

void ServingLoop::add_loss(const RankLoss& loss) {
  losses_.push_back(loss);
  add(loss.at, EventKind::loss, std::ssize(losses_) - 1);
}

std::size_t ServingLoop::index_of(const RankLoss& loss) const {
  return static_cast<std::size_t>(loss.instance) + (loss.decodes ? prompt_places() : 0);
}

void ServingLoop::lose(std::int64_t which) {
  const RankLoss loss = losses_[static_cast<std::size_t>(which)];
  const bool last = which + 1 == std::ssize(losses_);
  if (const auto next = last ? drawn_.next() : std::nullopt) add_loss(*next);
  ServingPlace& place = place_of(loss);
  const auto broken = place.instance->lose({which, loss.rank, loss.ranks, loss.recovery}, now_);
  if (!broken) return;
  ++place.serial;
  ++place.recovering;
  // The instance that decodes computes prompts again whose keys and values were on their way.
  for (const std::int64_t number : *broken) {
    const auto moving = moving_.find(number);
    if (moving == moving_.end()) unsent_.insert(number);
    if (moving != moving_.end()) moving->second.lost = true;
    count_broken(number);
  }
  add(now_ + loss.recovery, EventKind::recovered, static_cast<std::int64_t>(index_of(loss)));
  if (loss.back) add(now_ + *loss.back, EventKind::rank_back, which);
}

}  // namespace moesim
