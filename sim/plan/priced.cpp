// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/priced.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "sim/plan/check.h"
#include "sim/plan/fused_kernels.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// The matrix's identity, and all else that the price of an exchange by itself depends on.
using PriceKey = std::tuple<std::pair<const void*, Bytes>, bool, int, Group, Carrier, const void*>;

PriceKey key_of(const Op& op, const Carrier& carrier) {
  const Exchange& exchange = *op.exchange();
  return {exchange.traffic.identity(), exchange.transposed, exchange.rounds, op.group, carrier,
          exchange.collectives.get()};
}

/// What one of the collectives of an exchange moves.
struct Collective {
  ByteMatrix matrix;
  std::vector<GpuId> members;
  bool transposed;
  int rounds;
  GroupTraffic traffic() const { return {matrix, members, transposed, rounds}; }
};

std::vector<Collective> collectives_of(const Op& op) {
  const Exchange& exchange = *op.exchange();
  if (!exchange.collectives) {
    return {{exchange.traffic, op.group.list(), exchange.transposed, exchange.rounds}};
  }
  std::vector<Collective> result;
  for (const std::vector<GpuId>& places : *exchange.collectives) {
    std::vector<GpuId> members;
    for (const GpuId place : places) members.push_back(op.group[place.index()]);
    result.push_back(
        {exchange.traffic.among(places), std::move(members), exchange.transposed, exchange.rounds});
  }
  return result;
}

/// An exchange by what each of its collectives asks of the links; they share none.
ExchangePrice together(const std::vector<LinkLoads>& collectives) {
  PricedExchange exchange{collectives.front(), {}};
  for (std::size_t i = 1; i < collectives.size(); ++i) {
    const LinkLoads& loads = collectives[i];
    exchange.loads.uses.insert(exchange.loads.uses.end(), loads.uses.begin(), loads.uses.end());
    exchange.loads.latency = std::max(exchange.loads.latency, loads.latency);
    exchange.loads.overhead = std::max(exchange.loads.overhead, loads.overhead);
  }
  std::ranges::sort(exchange.loads.uses, {}, &LinkUse::link);
  exchange.alone = exchange_time(exchange.loads);
  return std::make_shared<const PricedExchange>(std::move(exchange));
}

/// An exchange that shares its links' times with no other.
ExchangePrice price_apart(const Op& op, const Topology& topology, const Carrier& carrier) {
  if (!op.exchange()->collectives) return price(topology, op.traffic(), carrier);
  std::vector<LinkLoads> loads;
  for (const Collective& one : collectives_of(op)) {
    loads.push_back(price(topology, one.traffic(), carrier)->loads);
  }
  return together(loads);
}

/// Prices the exchanges of one fused kernel, which share their links' times by their bytes.
std::vector<ExchangePrice> price_kernel(const Plan& plan, const Topology& topology,
                                        const std::vector<OpId>& kernel,
                                        const std::vector<Carrier>& carriers) {
  std::vector<std::vector<Collective>> moves;
  std::vector<std::vector<LinkLoads>> loads;
  std::vector<std::int64_t> bytes(topology.links().size());
  for (const OpId id : kernel) {
    moves.push_back(collectives_of(plan[id]));
    auto& of_op = loads.emplace_back();
    for (const Collective& one : moves.back()) {
      of_op.push_back(topology.loads(one.traffic()));
      for (const LinkUse& use : of_op.back().uses) bytes[use.link.index()] += use.bytes.value;
    }
  }
  std::vector<ExchangePrice> prices;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    const auto& [transport, goes_on] = carriers[kernel[i].index()];
    for (std::size_t c = 0; c < loads[i].size(); ++c) {
      carry(*transport, goes_on, topology, moves[i][c].traffic(), bytes, loads[i][c]);
    }
    prices.push_back(together(loads[i]));
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
    if (fresh) known->second = price_apart(plan.ops[op], topology, carriers[op]);
    prices_[op] = known->second;
  }
}

PricedPlan::PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops)
    : plan_(part), topology_(whole.topology_) {
  for (const OpId op : ops) prices_.push_back(whole[op]);
}

}  // namespace moesim
