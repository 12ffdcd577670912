// SPDX-License-Identifier: Apache-2.0
// A plan whose exchanges are priced on a topology, once for all who look at it.
#pragma once

#include <utility>
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
  PricedPlan(const Plan& fewer, PricedPlan&& whole)
      : plan_(fewer), topology_(whole.topology_), prices_(std::move(whole.prices_)) {}

  const Plan& plan() const { return plan_; }
  const Topology& topology() const { return topology_; }
  /// The price of an exchange.
  const ExchangePrice& operator[](OpId exchange) const { return prices_[exchange.index()]; }

 private:
  const Plan& plan_;
  const Topology& topology_;
  std::vector<ExchangePrice> prices_;  // per op, none of kernels
};

}  // namespace moesim
