// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/deployment.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/serving/deployment/check_deployment.h"
#include "sim/serving/deployment/closed_loop.h"
#include "sim/serving/deployment/drawn_losses.h"
#include "sim/serving/deployment/serving_event.h"
#include "sim/serving/deployment/serving_place.h"

namespace moesim {
namespace {

class ServingLoop {
 public:
  ServingLoop(const Deployment& deployment, const RequestLog& log)
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

  ServingRun run(const std::function<void(double)>& progress) {
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
      for (std::size_t i = 0; i < places_.size(); ++i) begin_pass(i);
      for (std::size_t i = 0; i < places_.size(); ++i) take_results(i);
      if (progress) progress(static_cast<double>(finished_) / static_cast<double>(count));
    }
    if (finished_ < count) throw Error("requests wait that no rank can take", "say back: 10 min");
    return summary();
  }

 private:
  void add_pool(const ServingPool& pool) {
    for (int i = 0; i < pool.instances; ++i) {
      places_.emplace_back().instance =
          std::make_unique<ServingInstance>(pool.engine, log_.prefix_tokens, *pool.prices);
    }
  }

  const ServingRequest& request(std::int64_t number) const {
    return log_.requests[static_cast<std::size_t>(number)];
  }
  bool decodes_apart() const { return deployment_.decode.has_value(); }
  std::size_t prompt_places() const { return static_cast<std::size_t>(deployment_.pool.instances); }
  std::span<const std::uint64_t> hashes(std::int64_t number) const {
    return log_.shared_chunks(static_cast<std::size_t>(number));
  }

  void add(Seconds time, EventKind kind, std::int64_t of, std::int64_t serial = 0) {
    events_.push({time, order_++, kind, of, serial});
  }

  void handle(const ServingEvent& event) {
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

  /// The instance that takes a request, among `count` from `first` on.
  std::size_t choose(Router& router, std::size_t first, std::size_t count, std::int64_t number) {
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

  void send(const ClosedLoop::Sent& sent, std::int64_t number) {
    run_.requests[static_cast<std::size_t>(number)].arrival = sent.clock;
    add(sent.leaves, EventKind::arrival, number);
  }

  void arrive(std::int64_t number) {
    const Seconds intake = deployment_.pool.engine.intake;
    if (intake == Seconds{}) return enqueue(number);
    add(now_ + intake, EventKind::intake, number);
  }

  void enqueue(std::int64_t number) {
    ServingSequence sequence;
    sequence.request = number, sequence.hashes = hashes(number);
    sequence.known = request(number).input;
    sequence.hands_over = decodes_apart() && request(number).output > 1;
    sequence.output = sequence.hands_over ? 1 : request(number).output;
    submit(choose(router_, 0, prompt_places(), number), std::move(sequence));
  }

  void submit(std::size_t at, ServingSequence sequence) {
    places_[at].instance->submit(std::move(sequence));
    if (places_[at].busy()) sample(at);  // it waits
  }

  void begin_pass(std::size_t at) {
    ServingPlace& place = places_[at];
    if (place.busy() || !place.instance->begin(now_)) return;
    show_first_tokens(place);
    sample(at);  // with what the pass takes in
    add(now_ + place.instance->pass().time, EventKind::pass_end, static_cast<std::int64_t>(at),
        ++place.serial);
  }

  /// Instances that decode give clients the first token, too: when they take a request in.
  void show_first_tokens(ServingPlace& place) {
    if (place.unshown.empty()) return;
    for (const RankScheduler& rank : place.instance->ranks()) {
      for (const ServingSequence& sequence : rank.running()) {
        if (place.unshown.erase(sequence.request) == 0) continue;
        const auto number = static_cast<std::size_t>(sequence.request);
        run_.requests[number].first = last_token_[number] = now_;
      }
    }
  }

  void end_pass(std::size_t at, std::int64_t serial) {
    if (places_[at].serial != serial) return;
    places_[at].instance->end();
    if (!engine_of(at).one_thread) take_results(at);  // clients answer before the next pass begins
    sample(at);
  }

  void sample(std::size_t at) {
    const ServingInstance& instance = *places_[at].instance;
    const TargetLoad load = instance.load({});
    const std::int64_t kv = instance.kv_blocks_in_use() * engine_of(at).kv.block;
    places_[at].kv_most = std::max(places_[at].kv_most, kv);
    run_.samples.push_back({now_, static_cast<int>(at), kv, load.waiting, load.running});
  }

  void take_results(std::size_t at) {
    gains_.clear();
    places_[at].instance->take_results(gains_);
    for (const PassGain& gain : gains_) take(gain, at);
  }

  const EngineOptions& engine_of(std::size_t at) const {
    return at < prompt_places() ? deployment_.pool.engine : deployment_.decode->engine;
  }

  void take(const PassGain& gain, std::size_t at) {
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

  void hand_over(std::int64_t number, std::size_t from) {
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

  void continue_decoding(std::int64_t number) {
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

  void add_loss(const RankLoss& loss) {
    losses_.push_back(loss);
    add(loss.at, EventKind::loss, std::ssize(losses_) - 1);
  }
  std::size_t index_of(const RankLoss& loss) const {
    return static_cast<std::size_t>(loss.instance) + (loss.decodes ? prompt_places() : 0);
  }
  ServingPlace& place_of(const RankLoss& loss) { return places_[index_of(loss)]; }

  void lose(std::int64_t which) {
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
      ++run_.broken_transfers;
      run_.broken_tokens += request(number).input;
    }
    add(now_ + loss.recovery, EventKind::recovered, static_cast<std::int64_t>(index_of(loss)));
    if (loss.back) add(now_ + *loss.back, EventKind::rank_back, which);
  }

  ServingRun summary() {
    run_.end = now_;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      auto& one = run_.instances.emplace_back(summary_of(*places_[i].instance, engine_of(i)));
      one.decodes_only = i >= prompt_places();
      one.kv_tokens_most = places_[i].kv_most;
    }
    return std::move(run_);
  }

  const Deployment& deployment_;
  const RequestLog& log_;
  Router router_, decode_router_;
  ClosedLoop client_;
  std::vector<ServingPlace> places_;  // those of the pool for prompts first
  std::priority_queue<ServingEvent, std::vector<ServingEvent>, std::greater<>> events_;
  std::map<std::int64_t, MovingRequest> moving_;
  std::set<std::int64_t> unsent_;  // lost before clients had the first token
  std::vector<RankLoss> losses_;
  std::vector<Seconds> last_token_;
  DrawnLosses drawn_;
  std::vector<PassGain> gains_;
  ServingRun run_;
  Seconds now_{};
  std::int64_t order_ = 0, next_ = 0, finished_ = 0;
};

}  // namespace

ServingRun run_serving(const Deployment& deployment, const RequestLog& log,
                       const std::function<void(double)>& progress) {
  check_deployment(deployment, log);
  return ServingLoop(deployment, log).run(progress);
}

}  // namespace moesim
