// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/max_min_carrier.h"

#include <utility>

#include "sim/engine/max_min.h"

namespace moesim {
namespace {

class MaxMinCarrier : public FlowCarrier {
 public:
  explicit MaxMinCarrier(Events& events) : events_(events) {}

  void add_link(BytesPerSecond bandwidth) override { rates_.add_link(bandwidth); }
  void add_link(Yield yield) override { rates_.add_link(std::move(yield)); }
  void add_route(GpuId, GpuId, int, std::span<const LinkId> links) override {
    rates_.add_route(links);
  }

  void send(std::vector<Flow> flows, Seconds window,
            std::function<void(std::size_t)> arrived) override {
    start_next(std::make_shared<Sending>(Sending{std::move(flows), window, std::move(arrived)}));
  }

  void change(LinkId link) override {
    rates_.change(link);
    settle_soon();
  }

 private:
  struct Sending {
    std::vector<Flow> flows;
    Seconds window;
    std::function<void(std::size_t)> arrived;
    std::size_t started = 0;
  };
  /// Whose flow it is.
  struct Sent {
    std::shared_ptr<Sending> by;
    std::size_t place = 0;
  };

  /// Starts what is due, and waits for the rest.
  void start_next(const std::shared_ptr<Sending>& sending) {
    auto& [flows, window, arrived, started] = *sending;
    for (; started < flows.size() && flows[started].start <= events_.now(); ++started) {
      const auto id = static_cast<std::size_t>(
          rates_.start(flows[started].route, flows[started].bytes, window));
      if (id >= sent_.size()) sent_.resize(id + 1);
      sent_[id] = {sending, started};
      settle_soon();
    }
    if (started == flows.size()) return;
    events_.call(flows[started].start, [this, sending] { start_next(sending); });
  }

  /// After all else that happens at this time.
  void settle_soon() {
    if (std::exchange(settling_, true)) return;
    events_.call(events_.now(), [this] {
      settling_ = false;
      for (MaxMin::Batch& batch : rates_.settle(events_.now())) {
        const Seconds time = batch.time;
        events_.call(time, [this, batch = std::move(batch)] { end(batch); });
      }
    });
  }

  void end(const MaxMin::Batch& batch) {
    const auto ended = rates_.end(batch);
    if (ended.empty()) return;
    for (const MaxMin::Flow id : ended) {
      const Sent sent = std::exchange(sent_[static_cast<std::size_t>(id)], {});
      sent.by->arrived(sent.place);
    }
    settle_soon();
  }

  Events& events_;
  MaxMin rates_;
  std::vector<Sent> sent_;  // [flow]
  bool settling_ = false;
};

}  // namespace

std::unique_ptr<FlowCarrier> make_max_min_carrier(Events& events) {
  return std::make_unique<MaxMinCarrier>(events);
}

}  // namespace moesim
