// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/deployment.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "sim/base/error.h"
#include "sim/serving/deployment/check_deployment.h"
#include "sim/serving/deployment/serving_loop.h"

namespace moesim {

ServingLoop::ServingLoop(const Deployment& deployment, const RequestLog& log)
    : deployment_(deployment),
      log_(log),
      router_(deployment.router),
      decode_router_(deployment.router),
      client_(log.client, std::min(log.concurrency, std::ssize(log.requests))),
      last_token_(log.requests.size()),
      drawn_(deployment) {
  add_pool(deployment.pool);
  if (deployment.decode) add_pool(*deployment.decode);
  for (const ServingRequest& request : log.requests) {
    run_.requests.push_back({request.arrival, {}, {}, request.input, request.output});
  }
}

ServingRun ServingLoop::run(const std::function<void(double)>& progress) {
  const std::int64_t count = std::ssize(log_.requests);
  const std::int64_t at_first = log_.concurrency > 0 ? std::min(log_.concurrency, count) : count;
  for (; next_ < at_first; ++next_) {
    const Seconds stated = request(next_).arrival;
    send(log_.concurrency > 0 ? client_.first(next_) : ClosedLoop::Sent{stated, stated}, next_);
  }
  for (const RankLoss& loss : deployment_.losses) add_loss(loss);
  if (const auto loss = drawn_.next()) add_loss(*loss);
  while (finished_ < count && !events_.empty()) {
    now_ = events_.top().time;
    while (!events_.empty() && events_.top().time == now_) {
      const ServingEvent event = events_.top();
      events_.pop();
      handle(event);
    }
    for (std::size_t i = 0; i < places_.size(); ++i) send_on(i);
    for (std::size_t i = 0; i < places_.size(); ++i) begin_pass(i);
    for (std::size_t i = 0; i < places_.size(); ++i) take_results(i);
    if (progress) progress(static_cast<double>(finished_) / static_cast<double>(count));
  }
  if (finished_ < count) throw Error("requests wait that no rank can take", "say back: 10 min");
  return summary();
}

void ServingLoop::add_pool(const ServingPool& pool) {
  for (int i = 0; i < pool.instances; ++i) {
    places_.emplace_back().instance =
        std::make_unique<ServingInstance>(pool.engine, log_.prefix_tokens, *pool.prices);
  }
}

void ServingLoop::handle(const ServingEvent& event) {
  switch (event.kind) {
    case EventKind::arrival:
      return arrive(event.of);
    case EventKind::intake:
      return enqueue(event.of);
    case EventKind::pass_end:
      return end_pass(static_cast<std::size_t>(event.of), event.serial);
    case EventKind::kv_arrival:
      return continue_decoding(event.of);
    case EventKind::loss:
      return lose(event.of);
    case EventKind::recovered:
      --places_[static_cast<std::size_t>(event.of)].recovering;
      return;
    case EventKind::rank_back:
      return place_of(losses_[static_cast<std::size_t>(event.of)]).instance->restore(event.of);
  }
}

std::size_t ServingLoop::choose(Router& router, std::size_t first, std::size_t count,
                                std::int64_t number) {
  if (count == 1) return first;
  std::vector<TargetLoad> loads;
  for (std::size_t i = first; i < first + count; ++i) {
    loads.push_back(places_[i].instance->load(
        router.asks_for_cached() ? hashes(number) : std::span<const std::uint64_t>{}));
    loads.back().waiting += places_[i].coming;
  }
  const int chosen = router.choose(loads, request(number).input);
  return first + static_cast<std::size_t>(std::max(chosen, 0));  // it waits if none is up
}

void ServingLoop::arrive(std::int64_t number) {
  const Seconds intake = deployment_.pool.engine.intake;
  if (intake == Seconds{}) return enqueue(number);
  add(now_ + intake, EventKind::intake, number);
}

void ServingLoop::enqueue(std::int64_t number) {
  ServingSequence sequence;
  sequence.request = number, sequence.hashes = hashes(number);
  sequence.known = request(number).input;
  sequence.hands_over = decodes_apart() && request(number).output > 1;
  sequence.output = sequence.hands_over ? 1 : request(number).output;
  submit(choose(router_, 0, prompt_places(), number), std::move(sequence));
}

void ServingLoop::begin_pass(std::size_t at) {
  ServingPlace& place = places_[at];
  if (place.busy() || !place.instance->begin(now_)) return;
  show_first_tokens(place);
  sample(at);  // with what the pass takes in
  add(now_ + place.instance->pass().time, EventKind::pass_end, static_cast<std::int64_t>(at),
      ++place.serial);
}

void ServingLoop::show_first_tokens(ServingPlace& place) {
  if (place.unshown.empty()) return;
  for (const RankScheduler& rank : place.instance->ranks()) {
    for (const ServingSequence& sequence : rank.running()) {
      if (place.unshown.erase(sequence.request) == 0) continue;
      const auto number = static_cast<std::size_t>(sequence.request);
      run_.requests[number].first = last_token_[number] = now_;
    }
  }
}

void ServingLoop::end_pass(std::size_t at, std::int64_t serial) {
  if (places_[at].serial != serial) return;
  places_[at].instance->end();
  if (!engine_of(at).one_thread) take_results(at);  // clients answer before the next pass begins
  sample(at);
}

void ServingLoop::sample(std::size_t at) {
  const ServingInstance& instance = *places_[at].instance;
  const TargetLoad load = instance.load({});
  const std::int64_t block = engine_of(at).kv.block, kv = instance.kv_blocks_in_use() * block;
  places_[at].kv_most = std::max(places_[at].kv_most, instance.most_kv_blocks() * block);
  run_.samples.push_back({now_, static_cast<int>(at), kv, load.waiting, load.running});
}

void ServingLoop::take_results(std::size_t at) {
  gains_.clear();
  places_[at].instance->take_results(gains_);
  for (const PassGain& gain : gains_) take(gain, at);
}

void ServingLoop::take(const PassGain& gain, std::size_t at) {
  const auto number = static_cast<std::size_t>(gain.request);
  RequestOutcome& outcome = run_.requests[number];
  outcome.emitted += gain.tokens;
  if (gain.finished && at < prompt_places() && decodes_apart() && outcome.output > 1) {
    return hand_over(gain.request, at);
  }
  if (outcome.emitted == gain.tokens) {
    outcome.first = now_;
  } else if (gain.request >= deployment_.warmup) {
    ++run_.gaps[(now_ - last_token_[number]).value];
  }
  last_token_[number] = now_;
  if (!gain.finished) return;
  outcome.finish = now_;
  ++outcome.finishes;
  ++finished_;
  if (log_.concurrency > 0 && next_ < std::ssize(log_.requests)) {
    send(client_.next(now_), next_++);
  }
}

void ServingLoop::hand_over(std::int64_t number, std::size_t from) {
  const auto count = static_cast<std::size_t>(deployment_.decode->instances);
  const std::size_t to = choose(decode_router_, prompt_places(), count, number);
  const std::int64_t tokens = request(number).input;
  const auto sender = static_cast<int>(from), receiver = static_cast<int>(to - prompt_places());
  const Seconds there = deployment_.transfers->arrival(now_, tokens, sender, receiver);
  moving_[number] = {from, to, unsent_.erase(number) > 0};
  ++places_[to].coming;
  ++run_.moved_requests;
  add(there, EventKind::kv_arrival, number);
}

void ServingLoop::continue_decoding(std::int64_t number) {
  const auto [from, to, lost] = moving_.at(number);
  moving_.erase(number);
  --places_[to].coming;
  places_[from].instance->release(number);
  ServingSequence sequence;
  sequence.request = number, sequence.hashes = hashes(number);
  sequence.known = request(number).input + 1;
  sequence.output = request(number).output;
  sequence.emitted = 1;
  sequence.carried = lost ? 0 : request(number).input;
  places_[to].unshown.insert(number);
  submit(to, std::move(sequence));
}

ServingRun ServingLoop::summary() {
  run_.end = now_;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    auto& one = run_.instances.emplace_back(summary_of(*places_[i].instance, engine_of(i)));
    one.decodes_only = i >= prompt_places();
    one.kv_tokens_most = places_[i].kv_most;
  }
  return std::move(run_);
}

ServingRun run_serving(const Deployment& deployment, const RequestLog& log,
                       const std::function<void(double)>& progress) {
  check_deployment(deployment, log);
  return ServingLoop(deployment, log).run(progress);
}

}  // namespace moesim
