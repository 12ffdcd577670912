// SPDX-License-Identifier: Apache-2.0
// Exchanges that take a stated time, whatever they move.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "sim/plan/simulate/execution.h"
#include "tests/engine/fixtures.h"

namespace moesim::test {

/// Every exchange takes the same time, for all together. `takes_everyone`: those who join at once
/// may come as one, and it says beforehand when it will have carried them.
class FixedNetwork : public Network {
 public:
  FixedNetwork(Events& events, Seconds time, Ended ended, bool takes_everyone = false)
      : events_(events), time_(time), ended_(std::move(ended)), takes_everyone_(takes_everyone) {}
  bool takes_everyone() const override { return takes_everyone_; }
  std::optional<Seconds> carried_at(const Progress::Joined& joined) const override {
    return takes_everyone_ ? std::optional(*joined.all + time_) : std::nullopt;
  }
  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    events_.call(*joined.all + time_, [this, op = joined.op] { ended_(op, everyone); });
  }

 private:
  Events& events_;
  Seconds time_;
  Ended ended_;
  bool takes_everyone_;
};

inline Timeline run_with_fixed_exchanges(const Plan& plan, const GpuModels& gpus, Seconds time,
                                         bool takes_everyone = false) {
  const Topology topology = star(plan.gpus);
  const PricedPlan priced(plan, topology);
  EventQueue events;
  return Execution(priced, gpus).run(events, [&](Network::Ended ended) {
    return std::make_unique<FixedNetwork>(events, time, std::move(ended), takes_everyone);
  });
}

}  // namespace moesim::test
