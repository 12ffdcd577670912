// SPDX-License-Identifier: Apache-2.0
// Closed-form exchange times on the plan's own order; see docs/fidelity.md.
#include "sim/analytic/analytic_backend.h"

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

/// Exchanges take the times of their phases.
class ClosedNetwork : public Network {
 public:
  ClosedNetwork(Events& events, const PricedPlan& plan, std::vector<Seconds> times, Ended ended)
      : events_(events), plan_(plan), times_(std::move(times)), ended_(std::move(ended)) {}

  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    events_.call(*carried_at(joined),
                 [this, op = joined.op, in = joined.collective] { ended_(op, everyone_of(in)); });
  }
  std::optional<Seconds> carried_at(const Progress::Joined& joined) const override {
    return *joined.all + times_[plan_.number_of(joined.op, joined.collective)];
  }
  bool takes_everyone() const override { return true; }

 private:
  Events& events_;
  const PricedPlan& plan_;
  std::vector<Seconds> times_;  // by PricedPlan::number_of
  Ended ended_;
};

struct HashOfPrices {
  std::size_t operator()(const std::vector<std::size_t>& prices) const {
    return hash_in_order(prices);
  }
};
using KnownTimes = std::unordered_map<std::vector<std::size_t>, std::vector<Seconds>, HashOfPrices>;

class AnalyticBackend : public SimulatedBackend {
 public:
  AnalyticBackend(const Topology& topology, GpuModels gpus)
      : SimulatedBackend(topology), gpus_(std::move(gpus)) {}

  Timeline run(const PricedPlan& plan) override {
    EventQueue events;
    Execution execution(plan, gpus_, HostsCompute::alone, Progress::ExchangeEnds::together);
    return std::move(execution).run(events, [&](Network::Ended ended) {
      return std::make_unique<ClosedNetwork>(events, plan, exchange_times(plan), std::move(ended));
    });
  }

 private:
  /// By PricedPlan::number_of; 0 for kernels.
  static std::vector<Seconds> exchange_times(const PricedPlan& plan) {
    std::vector<Seconds> times(plan.numbers());
    KnownTimes known;  // of microbatches that replay
    for (const std::vector<OpId>& ops : exchange_phases(plan.plan())) {
      std::vector<std::size_t> prices;
      for (const OpId op : ops) prices.push_back(plan.price_of(op));
      const auto [together, fresh] = known.try_emplace(prices);
      if (fresh) {
        std::vector<ExchangePrice> exchanges;
        for (const OpId op : ops) {
          const auto of_op = plan.prices_of(op);
          exchanges.insert(exchanges.end(), of_op.begin(), of_op.end());
        }
        together->second = shared_times(exchanges);
      }
      auto time = together->second.begin();
      for (const OpId op : ops) {
        for (std::size_t c = 0; c < plan.plan()[op].collectives(); ++c) {
          times[plan.number_of(op, static_cast<std::int32_t>(c))] = *time++;
        }
      }
    }
    return times;
  }

  GpuModels gpus_;
};

}  // namespace

std::unique_ptr<SimulatedBackend> make_analytic_backend(const Topology& topology,
                                                        const GpuModels& gpus) {
  return std::make_unique<AnalyticBackend>(topology, gpus);
}

}  // namespace moesim
