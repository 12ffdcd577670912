// SPDX-License-Identifier: Apache-2.0
// A plan whose exchanges are priced on a topology, once for all who look at it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/plan/exchange_time.h"
#include "sim/plan/kept_loads.h"
#include "sim/plan/plan.h"
#include "sim/topology/topology.h"

namespace moesim {

/// Plan and topology must outlive it.
class PricedPlan {
 public:
  /// `kept`: of the same plan when it was priced before, or empty; null: nothing is kept.
  PricedPlan(const Plan& plan, const Topology& topology, KeptLoads* kept = nullptr);
  /// `part` is slice(whole.plan(), ops): the prices stay.
  PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops);
  /// `fewer` has the same ops, for some of their GPUs (plan_of): the prices stay.
  PricedPlan(const Plan& fewer, PricedPlan&& whole);

  const Plan& plan() const { return plan_; }
  const Topology& topology() const { return topology_; }
  /// The price of an exchange; null: a kernel. Of collectives apart, that of the first.
  const ExchangePrice& operator[](OpId exchange) const { return (*prices_)[price_of(exchange)]; }
  /// Which of prices() that is. Microbatches that replay others have the same; kernels have 0.
  /// Collectives apart have one after the other.
  std::size_t price_of(OpId op, std::size_t collective = 0) const {
    return price_of_[op.index()] + collective;
  }
  /// Of an exchange: one, or that of each of its collectives apart.
  std::span<const ExchangePrice> prices_of(OpId exchange) const {
    return std::span(*prices_).subspan(price_of(exchange), plan_[exchange].collectives());
  }
  /// A number for each exchange, and each of collectives apart, in the order of the ops.
  std::size_t number_of(OpId op, std::int32_t collective) const {
    return number_of_[op.index()] + static_cast<std::size_t>(collective);
  }
  /// How many of these there are. Ops without an exchange take one, too.
  std::size_t numbers() const { return numbers_; }
  /// The first is none. A part of a plan has those of the whole.
  const std::vector<ExchangePrice>& prices() const { return *prices_; }
  /// fused_kernels(plan()).
  const std::vector<std::vector<OpId>>& fused() const { return fused_; }

 private:
  void number();
  void price_kernels(const std::vector<Carrier>& carriers, KeptLoads* kept);
  void price_others(const std::vector<Carrier>& carriers, KeptLoads* kept);

  const Plan& plan_;
  const Topology& topology_;
  std::shared_ptr<std::vector<ExchangePrice>> prices_;
  std::vector<std::uint32_t> price_of_;   // [op]
  std::vector<std::uint32_t> number_of_;  // [op]
  std::size_t numbers_ = 0;
  std::vector<std::vector<OpId>> fused_;
};

}  // namespace moesim
