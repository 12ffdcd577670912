// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/priced.h"

#include <map>
#include <tuple>
#include <utility>

#include "sim/plan/check.h"
#include "sim/plan/fused_kernels.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// The matrix's identity, and all else that the price of an exchange by itself depends on.
using PriceKey = std::tuple<std::pair<const void*, Bytes>, bool, int, Group, Carrier>;

PriceKey key_of(const Op& op, const Carrier& carrier) {
  const Exchange& exchange = *op.exchange();
  return {exchange.traffic.identity(), exchange.transposed, exchange.rounds, op.group, carrier};
}

/// Prices the exchanges of one fused kernel, which share their links' times by their bytes.
std::vector<ExchangePrice> price_kernel(const Plan& plan, const Topology& topology,
                                        const std::vector<OpId>& kernel,
                                        const std::vector<Carrier>& carriers) {
  std::vector<PricedExchange> parts;
  std::vector<std::int64_t> bytes(topology.links().size());
  for (const OpId id : kernel) {
    parts.push_back({topology.loads(plan[id].traffic()), {}});
    for (const LinkUse& use : parts.back().loads.uses) bytes[use.link.index()] += use.bytes.value;
  }
  std::vector<ExchangePrice> prices;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const auto& [transport, goes_on] = carriers[kernel[i].index()];
    carry(*transport, goes_on, topology, plan[kernel[i]].traffic(), bytes, parts[i].loads);
    parts[i].alone = exchange_time(parts[i].loads);
    prices.push_back(std::make_shared<const PricedExchange>(std::move(parts[i])));
  }
  return prices;
}

}  // namespace

PricedPlan::PricedPlan(const Plan& plan, const Topology& topology)
    : plan_(plan), topology_(topology), prices_(plan.ops.size()) {
  check_gpus(plan, static_cast<std::size_t>(topology.gpu_count()));
  const std::vector<Carrier> carriers = carriers_of(plan);
  std::map<std::vector<PriceKey>, std::vector<ExchangePrice>> of_kernels;
  for (const std::vector<OpId>& kernel : fused_kernels(plan)) {
    std::vector<PriceKey> key;
    for (const OpId id : kernel) key.push_back(key_of(plan[id], carriers[id.index()]));
    const auto [known, fresh] = of_kernels.try_emplace(std::move(key));
    if (fresh) known->second = price_kernel(plan, topology, kernel, carriers);
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      prices_[kernel[i].index()] = known->second[i];
    }
  }
  std::map<PriceKey, ExchangePrice> price_of;
  for (std::size_t op = 0; op < prices_.size(); ++op) {
    if (plan.ops[op].exchange() == nullptr || prices_[op]) continue;
    const auto [known, fresh] = price_of.try_emplace(key_of(plan.ops[op], carriers[op]));
    if (fresh) known->second = price(topology, plan.ops[op].traffic(), carriers[op]);
    prices_[op] = known->second;
  }
}

PricedPlan::PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops)
    : plan_(part), topology_(whole.topology_) {
  for (const OpId op : ops) prices_.push_back(whole[op]);
}

}  // namespace moesim
