// SPDX-License-Identifier: Apache-2.0
// The events of a serving run, in the order of their time.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "sim/serving/deployment/closed_loop.h"
#include "sim/serving/deployment/deployment.h"
#include "sim/serving/deployment/drawn_losses.h"
#include "sim/serving/deployment/serving_event.h"
#include "sim/serving/deployment/serving_place.h"

namespace moesim {

/// Handles all events of a time, then lets instances begin passes, until every request is finished.
class ServingLoop {
 public:
  ServingLoop(const Deployment& deployment, const RequestLog& log);

  ServingRun run(const std::function<void(double)>& progress);

 private:
  void add_pool(const ServingPool& pool);

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

  void handle(const ServingEvent& event);

  /// The instance that takes a request, among `count` from `first` on.
  std::size_t choose(Router& router, std::size_t first, std::size_t count, std::int64_t number);

  void send(const ClosedLoop::Sent& sent, std::int64_t number) {
    run_.requests[static_cast<std::size_t>(number)].arrival = sent.clock;
    add(sent.leaves, EventKind::arrival, number);
  }

  void arrive(std::int64_t number);

  void enqueue(std::int64_t number);

  void submit(std::size_t at, ServingSequence sequence) {
    places_[at].instance->submit(std::move(sequence));
    if (places_[at].busy()) sample(at);  // it waits
  }

  /// Instances of the same pool: the first, and how many.
  std::pair<std::size_t, std::size_t> pool_of(std::size_t at) const;

  /// What waits where no rank is up goes to another instance, if one is. Keys and values that were
  /// sent to the first one are computed again.
  void send_on(std::size_t from);

  void count_broken(std::int64_t number);

  void begin_pass(std::size_t at);

  /// Instances that decode give clients the first token, too: when they take a request in.
  void show_first_tokens(ServingPlace& place);

  void end_pass(std::size_t at, std::int64_t serial);

  void sample(std::size_t at);

  void take_results(std::size_t at);

  const EngineOptions& engine_of(std::size_t at) const {
    return at < prompt_places() ? deployment_.pool.engine : deployment_.decode->engine;
  }

  void take(const PassGain& gain, std::size_t at);

  void hand_over(std::int64_t number, std::size_t from);

  void continue_decoding(std::int64_t number);

  void add_loss(const RankLoss& loss);
  std::size_t index_of(const RankLoss& loss) const;
  ServingPlace& place_of(const RankLoss& loss) { return places_[index_of(loss)]; }

  void lose(std::int64_t which);

  ServingRun summary();

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

}  // namespace moesim
