// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/hash.h"
#include "sim/plan/exchange_time.h"
#include "sim/plan/phases.h"
#include "sim/plan/simulate/execution.h"

namespace moesim {
namespace {

/// What every exchange takes among those of its phase. Phases of equal prices take the same.
class ExchangeTimes {
 public:
  explicit ExchangeTimes(const PricedPlan& plan) : first_(plan.plan().ops.size()) {
    std::unordered_map<std::vector<std::size_t>, std::size_t, HashOfPrices> known;
    std::vector<std::size_t> prices;
    for (const std::vector<OpId>& ops : exchange_phases(plan.plan())) {
      prices.clear();
      for (const OpId op : ops) prices.push_back(plan.price_of(op));
      const auto [at, fresh] = known.try_emplace(prices, times_.size());
      if (fresh) add(plan, ops);
      std::size_t first = at->second;
      for (const OpId op : ops) {
        first_[op.index()] = static_cast<std::uint32_t>(first);
        first += plan.plan()[op].collectives();
      }
    }
  }

  Seconds of(OpId exchange, std::int32_t collective) const {
    return times_[first_[exchange.index()] + static_cast<std::size_t>(collective)];
  }

 private:
  struct HashOfPrices {
    std::size_t operator()(const std::vector<std::size_t>& prices) const {
      return hash_in_order(prices);
    }
  };

  void add(const PricedPlan& plan, const std::vector<OpId>& phase) {
    std::vector<ExchangePrice> exchanges;
    for (const OpId op : phase) {
      const auto of_op = plan.prices_of(op);
      exchanges.insert(exchanges.end(), of_op.begin(), of_op.end());
    }
    const std::vector<Seconds> times = shared_times(exchanges);
    times_.insert(times_.end(), times.begin(), times.end());
  }

  std::vector<std::uint32_t> first_;  // [op] of its collectives, in times_
  std::vector<Seconds> times_;
};

/// Exchanges take the times of their phases.
class ClosedNetwork : public Network {
 public:
  ClosedNetwork(Events& events, const PricedPlan& plan, Ended ended)
      : events_(events), times_(plan), ended_(std::move(ended)) {}

  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    events_.call(*carried_at(joined),
                 [this, op = joined.op, in = joined.collective] { ended_(op, everyone_of(in)); });
  }
  std::optional<Seconds> carried_at(const Progress::Joined& joined) const override {
    return *joined.all + times_.of(joined.op, joined.collective);
  }
  bool takes_everyone() const override { return true; }

 private:
  Events& events_;
  ExchangeTimes times_;
  Ended ended_;
};

class AnalyticBackend : public SimulatedBackend {
 public:
  AnalyticBackend(const Topology& topology, GpuModels gpus)
      : SimulatedBackend(topology), gpus_(std::move(gpus)) {}

  Timeline run(const PricedPlan& plan) override {
    EventQueue events;
    Execution execution(plan, gpus_, HostsCompute::alone, Progress::ExchangeEnds::together);
    return std::move(execution).run(events, [&](Network::Ended ended) {
      return std::make_unique<ClosedNetwork>(events, plan, std::move(ended));
    });
  }

 private:
  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_analytic_backend(const Topology& topology,
                                                        const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
