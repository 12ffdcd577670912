// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/port_backend.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/engine_backend.h"
#include "sim/engine/link_classes.h"
#include "sim/plan/shared_link.h"

namespace moesim {
namespace {

class PortNetwork : public Network {
 public:
  PortNetwork(Events& events, const PricedPlan& plan, Ended ended)
      : events_(events),
        plan_(plan),
        ended_(std::move(ended)),
        classes_(plan),
        links_(classes_.count()),
        ends_(plan.numbers()) {
    const std::vector<ExchangePrice>& prices = plan.prices();
    for (std::size_t p = 0; p < prices.size(); ++p) {
      begins_.push_back({prices[p] != nullptr ? prices[p]->start() : Seconds(0), classes_.uses(p)});
    }
  }

  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    const Begin& begins = begin_of(joined.op, joined.collective);
    for (std::size_t u = 0; u < begins.uses.size(); u += uses_of_line) {
      __builtin_prefetch(&begins.uses[u]);
    }
    events_.call(*joined.all + begins.after,
                 [this, op = joined.op, in = joined.collective] { begin(op, in); });
  }
  bool takes_everyone() const override { return true; }

 private:
  using Number = std::uint32_t;  // of an exchange, or of one of collectives apart
  static constexpr std::size_t uses_of_line = 64 / sizeof(ClassUse);
  /// How exchanges of one price begin.
  struct Begin {
    Seconds after;  // PricedExchange::start
    std::span<const ClassUse> uses;
  };
  const Begin& begin_of(OpId op, std::int32_t collective) const {
    return begins_[plan_.price_of(op, static_cast<std::size_t>(collective))];
  }

  /// Its bytes begin to move. Exchanges that share a link with it end later than foretold.
  void begin(OpId op, std::int32_t collective) {
    const Seconds now = events_.now();
    const auto number = static_cast<Number>(plan_.number_of(op, collective));
    ends_[number] = now;
    const std::span<const ClassUse> uses = begin_of(op, collective).uses;
    for (const ClassUse& use : uses) __builtin_prefetch(&links_[use.link_class], 1);
    for (const ClassUse& use : uses) {
      SharedLink<Number>& link = links_[use.link_class];
      link.advance(now, [](Number, Seconds) {});
      link.add(number, use.time);
      link.foretell([this](Number served, Seconds end) {
        Seconds& last = ends_[served];
        last = std::max(last, end);
      });
    }
    await_end(op, collective);
  }

  void await_end(OpId op, std::int32_t collective) {
    const Seconds& end = ends_[plan_.number_of(op, collective)];
    events_.call(end, [this, op, collective] {
      if (ends_[plan_.number_of(op, collective)] > events_.now()) return await_end(op, collective);
      ended_(op, everyone_of(collective));
    });
  }

  Events& events_;
  const PricedPlan& plan_;
  Ended ended_;
  LinkClasses classes_;
  std::vector<Begin> begins_;              // [price]
  std::vector<SharedLink<Number>> links_;  // [class]
  std::vector<Seconds> ends_;  // [number] of an exchange whose bytes move, unless others begin
};

std::unique_ptr<Network> port_network(Events& events, const PricedPlan& plan, Network::Ended ended,
                                      const SimulatedBackend::Watch&) {
  return make_port_network(events, plan, std::move(ended));
}

}  // namespace

std::unique_ptr<Network> make_port_network(Events& events, const PricedPlan& plan,
                                           Network::Ended ended) {
  return std::make_unique<PortNetwork>(events, plan, std::move(ended));
}

std::unique_ptr<SimulatedBackend> make_port_backend(const Topology& topology,
                                                    const GpuModels& gpus) {
  return make_engine_backend(topology, gpus, port_network, {}, HostsCompute::alone,
                             Progress::ExchangeEnds::together);
}

}  // namespace moesim
