// SPDX-License-Identifier: Apache-2.0
// A plan whose exchanges are priced on a topology, once for all who look at it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/plan/exchange_time.h"
#include "sim/plan/plan.h"

namespace moesim {

/// Plan and topology must outlive it.
class PricedPlan {
 public:
  PricedPlan(const Plan& plan, const Topology& topology);
  /// `part` is slice(whole.plan(), ops): the prices stay.
  PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops);
  /// `fewer` has the same ops, for some of their GPUs (plan_of): the prices stay.
  PricedPlan(const Plan& fewer, PricedPlan&& whole);

  const Plan& plan() const { return plan_; }
  const Topology& topology() const { return topology_; }
  /// The price of an exchange.
  const ExchangePrice& operator[](OpId exchange) const { return (*prices_)[price_of(exchange)]; }
  /// Which of prices() that is. Microbatches that replay others have the same; kernels have 0.
  std::size_t price_of(OpId op) const { return price_of_[op.index()]; }
  /// The first is none. A part of a plan has those of the whole.
  const std::vector<ExchangePrice>& prices() const { return *prices_; }
  /// fused_kernels(plan()).
  const std::vector<std::vector<OpId>>& fused() const { return fused_; }

 private:
  void price_kernels(const std::vector<Carrier>& carriers);
  void price_others(const std::vector<Carrier>& carriers);

  const Plan& plan_;
  const Topology& topology_;
  std::shared_ptr<std::vector<ExchangePrice>> prices_;
  std::vector<std::uint32_t> price_of_;  // [op]
  std::vector<std::vector<OpId>> fused_;
};

}  // namespace moesim
