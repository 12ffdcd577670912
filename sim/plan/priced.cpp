// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/priced.h"

#include <map>
#include <tuple>
#include <utility>

#include "sim/plan/check.h"

namespace moesim {

PricedPlan::PricedPlan(const Plan& plan, const Topology& topology)
    : plan_(plan), topology_(topology), prices_(plan.ops.size()) {
  check_gpus(plan, static_cast<std::size_t>(topology.gpu_count()));
  // By the matrix's identity, and all else that the price depends on.
  using Key = std::tuple<std::pair<const void*, Bytes>, bool, int, Group>;
  std::map<Key, ExchangePrice> price_of;
  for (std::size_t op = 0; op < prices_.size(); ++op) {
    const Exchange* exchange = plan.ops[op].exchange();
    if (exchange == nullptr) continue;
    const auto [known, fresh] = price_of.try_emplace(
        {exchange->traffic.identity(), exchange->transposed, exchange->rounds, plan.ops[op].group});
    if (fresh) known->second = price(topology, plan.ops[op].traffic());
    prices_[op] = known->second;
  }
}

PricedPlan::PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops)
    : plan_(part), topology_(whole.topology_) {
  for (const OpId op : ops) prices_.push_back(whole[op]);
}

}  // namespace moesim
