// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/max_min_carrier.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/engine/max_min.h"

namespace moesim {
namespace {

class MaxMinCarrier : public FlowCarrier {
 public:
  explicit MaxMinCarrier(Events& events) : events_(events) {}

  void add_link(BytesPerSecond bandwidth) override {
    rates_.add_link(bandwidth);
    routes_.add_link(bandwidth);
  }
  void add_link(Yield yield) override {
    rates_.add_link(std::move(yield));
    routes_.add_changing_link();
  }
  void add_route(GpuId, GpuId, int, std::span<const LinkId> links) override {
    if (all_known_) throw std::logic_error("a route comes after the first flows");
    routes_.add_route(links);
  }

  void send(std::vector<Flow> flows, Seconds window,
            std::function<void(std::size_t)> arrived) override {
    if (!std::exchange(all_known_, true)) {
      routes_.take_routes([this](std::span<const LinkId> links) { rates_.add_route(links); });
    }
    const std::size_t left = flows.size();
    if (left > 0) start_next(keep({std::move(flows), window, std::move(arrived), 0, left}));
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
    std::size_t started, left;  // of the flows; left: that have not arrived
  };
  /// Whose flow it is: small, because there is one for every pair of GPUs.
  struct Sent {
    std::uint32_t by = 0;  // into sendings_
    std::uint32_t place = 0;
  };

  /// Returns its place in sendings_.
  std::uint32_t keep(Sending sending) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(sendings_.size()));
      sendings_.emplace_back();
    }
    const std::uint32_t by = free_.back();
    free_.pop_back();
    sendings_[by] = std::make_unique<Sending>(std::move(sending));
    return by;
  }

  /// Starts what is due, and waits for the rest.
  void start_next(std::uint32_t by) {
    auto& [flows, window, arrived, started, left] = *sendings_[by];
    for (; started < flows.size() && flows[started].start <= events_.now(); ++started) {
      const auto id = static_cast<std::size_t>(
          rates_.start(flows[started].route, flows[started].bytes, window, events_.now()));
      if (id >= sent_.size()) sent_.resize(id + 1);
      sent_[id] = {by, static_cast<std::uint32_t>(started)};
      settle_soon();
    }
    if (started == flows.size()) return;
    events_.call(flows[started].start, [this, by] { start_next(by); });
  }

  /// After all else that happens at this time, or later if that is not needed yet.
  void settle_soon() {
    const Seconds due = rates_.due(events_.now());
    if (due >= settling_) return;
    settling_ = due;
    events_.call(due, [this, due] {
      if (due != settling_) return;
      settling_ = never;
      for (MaxMin::Batch& batch : rates_.settle(events_.now())) {
        await_next(std::make_shared<const MaxMin::Batch>(std::move(batch)), 0);
      }
    });
  }

  void await_next(std::shared_ptr<const MaxMin::Batch> batch, std::size_t place) {
    const bool ends = place < batch->endings.size() && batch->endings[place].time <= batch->time;
    const Seconds time = ends ? batch->endings[place].time : batch->time;
    events_.call(time, [this, batch = std::move(batch), place, ends] {
      ends ? end(batch, place) : leave(*batch);
    });
  }

  /// Ends a flow, and all flows that end with it.
  void end(const std::shared_ptr<const MaxMin::Batch>& batch, std::size_t place) {
    const Seconds time = std::max(batch->endings[place].time, events_.now());
    for (; place < batch->endings.size() && batch->endings[place].time <= time; ++place) {
      if (!rates_.end(*batch, place)) return;
      tell(sent_[static_cast<std::size_t>(batch->endings[place].flow)]);
    }
    await_next(batch, place);
  }

  void tell(Sent sent) {
    Sending& by = *sendings_[sent.by];
    by.arrived(sent.place);
    if (--by.left > 0) return;
    sendings_[sent.by].reset();
    free_.push_back(sent.by);
  }

  void leave(const MaxMin::Batch& batch) {
    const auto late = std::make_shared<Late>();
    for (const auto& [time, flow] : rates_.leave(batch)) {
      late->emplace_back(time, sent_[static_cast<std::size_t>(flow)]);
    }
    settle_soon();
    await_late(late, 0);
  }

  /// Flows that have left their links and have not ended.
  using Late = std::vector<std::pair<Seconds, Sent>>;

  void await_late(const std::shared_ptr<Late>& late, std::size_t place) {
    if (place == late->size()) return;
    events_.call((*late)[place].first, [this, late, place] {
      std::size_t next = place;
      for (; next < late->size() && (*late)[next].first <= events_.now(); ++next) {
        tell((*late)[next].second);
      }
      await_late(late, next);
    });
  }

  static constexpr Seconds never{std::numeric_limits<double>::infinity()};

  Events& events_;
  MaxMin rates_;
  NeededHops routes_;  // until the first flows come
  bool all_known_ = false;
  std::vector<std::unique_ptr<Sending>> sendings_;  // none: free
  std::vector<std::uint32_t> free_;                 // of them
  std::vector<Sent> sent_;                          // [flow]
  Seconds settling_ = never;                        // when
};

}  // namespace

void NeededHops::add_route(std::span<const LinkId> links) {
  for (const LinkId link : links) {
    OfLink& of = links_[link.index()];
    if (!std::exchange(of.used, true)) {
      of.always.assign(links.begin(), links.end());
    } else if (of.always.size() > 1) {
      std::erase_if(of.always,
                    [&](LinkId other) { return std::ranges::find(links, other) == links.end(); });
    }
  }
  hops_.insert(hops_.end(), links.begin(), links.end());
  hops_.emplace_back(-1);
}

/// Of links that are equally wide and always together the first is needed.
bool NeededHops::is_needed(std::size_t link) const {
  const OfLink& of = links_[link];
  if (of.changes) return true;
  return std::ranges::none_of(of.always, [&](LinkId id) {
    const OfLink& other = links_[id.index()];
    if (id.index() == link || other.changes || other.bandwidth > of.bandwidth) return false;
    if (other.bandwidth < of.bandwidth || id.index() < link) return true;
    const LinkId self(static_cast<std::int64_t>(link));
    return std::ranges::find(other.always, self) == other.always.end();
  });
}

std::unique_ptr<FlowCarrier> make_max_min_carrier(Events& events) {
  return std::make_unique<MaxMinCarrier>(events);
}

}  // namespace moesim
