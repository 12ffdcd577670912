// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/priced.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "sim/base/hash.h"
#include "sim/plan/check.h"
#include "sim/plan/fused_kernels.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// All that the price of an exchange by itself depends on; of a fused kernel that of all of its
/// exchanges. Without carriers: all that the loads before they are carried depend on.
class PriceKeys {
 public:
  PriceKeys(const Plan& plan, const std::vector<Carrier>* carriers)
      : plan_(plan), carriers_(carriers) {}

  std::size_t operator()(OpId op) const {
    const auto [matrix, unit] = plan_[op].exchange()->traffic.identity();
    return std::hash<const void*>()(matrix) ^ static_cast<std::size_t>(unit.value);
  }
  std::size_t operator()(const std::vector<OpId>* kernel) const {
    std::vector<std::size_t> hashes(kernel->size());
    std::ranges::transform(*kernel, hashes.begin(), *this);
    return hash_in_order(hashes);
  }

  bool operator()(OpId a, OpId b) const {
    const Exchange &one = *plan_[a].exchange(), &other = *plan_[b].exchange();
    return one.traffic.identity() == other.traffic.identity() &&
           one.transposed == other.transposed && one.rounds == other.rounds &&
           one.ring == other.ring && one.with_hosts == other.with_hosts &&
           one.collectives == other.collectives && plan_[a].group == plan_[b].group &&
           (carriers_ == nullptr || (*carriers_)[a.index()] == (*carriers_)[b.index()]);
  }
  bool operator()(const std::vector<OpId>* a, const std::vector<OpId>* b) const {
    return std::ranges::equal(*a, *b, *this);
  }

 private:
  const Plan& plan_;
  const std::vector<Carrier>* carriers_;
};

/// What one of the collectives of an exchange moves.
struct Collective {
  ByteMatrix matrix;
  Group members;
  bool transposed;
  int rounds;
  bool ring, with_hosts;
  GroupTraffic traffic() const { return {matrix, members, transposed, rounds, ring, with_hosts}; }
};

/// What each collective of an exchange moves. Exchanges of the same rows have the same but for
/// units and ways, so that rows are divided once.
class CollectivesOf {
 public:
  std::vector<Collective> operator()(const Op& op) {
    const Exchange& exchange = *op.exchange();
    if (!exchange.collectives) {
      return {{exchange.traffic, op.group, exchange.transposed, exchange.rounds, exchange.ring,
               exchange.with_hosts}};
    }
    const auto [known, fresh] = divided_.try_emplace(
        {exchange.traffic.identity().first, exchange.collectives.get(), &op.group.list()});
    if (fresh) known->second = divided(op);
    std::vector<Collective> result = known->second;
    for (Collective& one : result) {
      one.matrix = one.matrix.with_unit(exchange.traffic.unit());
      one.transposed = exchange.transposed;
      one.rounds = exchange.rounds;
      one.ring = exchange.ring;
      one.with_hosts = exchange.with_hosts;
    }
    return result;
  }

 private:
  static std::vector<Collective> divided(const Op& op) {
    const Exchange& exchange = *op.exchange();
    std::vector<Collective> result;
    for (const std::vector<GpuId>& places : exchange.collectives->members) {
      std::vector<GpuId> members;
      for (const GpuId place : places) members.push_back(op.group[place.index()]);
      result.push_back(
          {exchange.traffic.among(places), std::move(members), false, 1, false, false});
    }
    return result;
  }

  using Key = std::tuple<const void*, const Collectives*, const std::vector<GpuId>*>;
  std::map<Key, std::vector<Collective>> divided_;
};

ExchangePrice price_of_loads(LinkLoads loads) {
  PricedExchange exchange{std::move(loads), {}};
  exchange.alone = exchange_time(exchange.loads);
  return std::make_shared<const PricedExchange>(std::move(exchange));
}

/// What collectives that share no link ask of the links.
LinkLoads together(std::vector<LinkLoads> collectives) {
  LinkLoads all = std::move(collectives.front());
  if (collectives.size() == 1) return all;
  for (std::size_t i = 1; i < collectives.size(); ++i) {
    const LinkLoads& loads = collectives[i];
    all.uses.insert(all.uses.end(), loads.uses.begin(), loads.uses.end());
    all.latency = std::max(all.latency, loads.latency);
    all.overhead = std::max(all.overhead, loads.overhead);
  }
  std::ranges::sort(all.uses, {}, &LinkUse::link);
  return all;
}

/// Of an exchange, or of each of its collectives if they are apart.
void add_prices(const Op& op, std::vector<LinkLoads> loads, std::vector<ExchangePrice>& prices) {
  if (op.apart() == nullptr) return prices.push_back(price_of_loads(together(std::move(loads))));
  for (LinkLoads& of_one : loads) prices.push_back(price_of_loads(std::move(of_one)));
}

LinkLoads loads_of(const GroupTraffic& traffic, const Topology& topology, KeptLoads* kept) {
  return kept != nullptr ? kept->next(topology, traffic) : topology.loads(traffic);
}

/// An exchange that shares its links' times with no other.
void price_alone(const Op& op, const Topology& topology, const Carrier& carrier,
                 CollectivesOf& collectives_of, KeptLoads* kept,
                 std::vector<ExchangePrice>& prices) {
  const auto price_of = [&](const GroupTraffic& traffic) {
    return price(topology, traffic, loads_of(traffic, topology, kept), carrier);
  };
  if (!op.exchange()->collectives) return prices.push_back(price_of(op.traffic()));
  std::vector<LinkLoads> loads;
  for (const Collective& one : collectives_of(op)) loads.push_back(price_of(one.traffic())->loads);
  add_prices(op, std::move(loads), prices);
}

/// Prices the exchanges of fused kernels, which share their links' times by their bytes.
class KernelPrices {
 public:
  KernelPrices(const Plan& plan, const Topology& topology, const std::vector<Carrier>& carriers,
               KeptLoads* kept, std::vector<ExchangePrice>& prices)
      : plan_(plan),
        topology_(topology),
        carriers_(carriers),
        kept_(kept),
        prices_(prices),
        same_rows_(0, PriceKeys(plan, nullptr), PriceKeys(plan, nullptr)) {}

  /// Appends the prices of a kernel, which must outlive this.
  void add(const std::vector<OpId>& kernel) {
    std::vector<std::vector<Collective>> moves;
    for (const OpId id : kernel) moves.push_back(collectives_of_(plan_[id]));
    const auto [same, fresh] = same_rows_.try_emplace(&kernel, prices_.size());
    auto loads =
        fresh || !can_restore(kernel) ? loads_of_all(moves) : restored(moves, same->second);
    std::vector<std::int64_t> bytes(topology_.link_count());
    for (const auto& of_op : loads) {
      for (const LinkLoads& one : of_op) {
        for (const LinkUse& use : one.uses) bytes[use.link.index()] += use.bytes.value;
      }
    }
    for (std::size_t i = 0; i < kernel.size(); ++i) {
      const auto& [transport, goes_on] = carriers_[kernel[i].index()];
      for (std::size_t c = 0; c < loads[i].size(); ++c) {
        carry(*transport, goes_on, topology_, moves[i][c].traffic(), bytes, loads[i][c]);
      }
      add_prices(plan_[kernel[i]], std::move(loads[i]), prices_);
    }
  }

 private:
  using Moves = std::vector<std::vector<Collective>>;
  using Loads = std::vector<std::vector<LinkLoads>>;

  Loads loads_of_all(const Moves& moves) const {
    Loads loads;
    for (const std::vector<Collective>& of_op : moves) {
      auto& of_each = loads.emplace_back();
      for (const Collective& one : of_op) {
        of_each.push_back(loads_of(one.traffic(), topology_, kept_));
      }
    }
    return loads;
  }
  /// Whether all but times can be read from prices: those of joined collectives are sums.
  bool can_restore(const std::vector<OpId>& kernel) const {
    return !topology_.crowds() && std::ranges::all_of(kernel, [&](OpId id) {
      return !plan_[id].exchange()->collectives || plan_[id].apart() != nullptr;
    });
  }
  /// From prices of the same rows by other carriers: the way there and the way back may differ.
  Loads restored(const Moves& moves, std::size_t price) const {
    Loads loads;
    for (const std::vector<Collective>& of_op : moves) {
      auto& of_each = loads.emplace_back();
      for (const Collective& one : of_op) {
        of_each.push_back(prices_[price++]->loads);
        set_times_anew(of_each.back(), topology_, one.traffic());
      }
    }
    return loads;
  }

  const Plan& plan_;
  const Topology& topology_;
  const std::vector<Carrier>& carriers_;
  KeptLoads* kept_;
  std::vector<ExchangePrice>& prices_;
  CollectivesOf collectives_of_;
  std::unordered_map<const std::vector<OpId>*, std::size_t, PriceKeys, PriceKeys>
      same_rows_;  // the first price
};

}  // namespace

PricedPlan::PricedPlan(const Plan& plan, const Topology& topology, KeptLoads* kept)
    : plan_(plan),
      topology_(topology),
      prices_(std::make_shared<std::vector<ExchangePrice>>(1)),
      price_of_(plan.ops.size()),
      fused_(fused_kernels(plan)) {
  check_gpus(plan, static_cast<std::size_t>(topology.gpu_count()));
  number();
  const std::vector<Carrier> carriers = carriers_of(plan, fused_);
  if (kept != nullptr) kept->restart();
  price_kernels(carriers, kept);
  price_others(carriers, kept);
}

void PricedPlan::number() {
  number_of_.reserve(plan_.ops.size());
  for (const Op& op : plan_.ops) {
    number_of_.push_back(static_cast<std::uint32_t>(numbers_));
    numbers_ += op.collectives();
  }
}

void PricedPlan::price_kernels(const std::vector<Carrier>& carriers, KeptLoads* kept) {
  const PriceKeys keys(plan_, &carriers);
  std::unordered_map<const std::vector<OpId>*, std::size_t, PriceKeys, PriceKeys> known(
      0, keys, keys);  // the first price
  KernelPrices prices(plan_, topology_, carriers, kept, *prices_);
  for (const std::vector<OpId>& kernel : fused_) {
    const auto [same, fresh] = known.try_emplace(&kernel, prices_->size());
    if (fresh) prices.add(kernel);
    std::size_t price = same->second;
    for (const OpId op : kernel) {
      price_of_[op.index()] = static_cast<std::uint32_t>(price);
      price += plan_[op].collectives();
    }
  }
}

void PricedPlan::price_others(const std::vector<Carrier>& carriers, KeptLoads* kept) {
  const PriceKeys keys(plan_, &carriers);
  std::unordered_map<OpId, std::uint32_t, PriceKeys, PriceKeys> known(0, keys, keys);
  CollectivesOf collectives_of;
  for (OpId op(0); op.index() < price_of_.size(); ++op.value) {
    if (plan_[op].exchange() == nullptr || price_of_[op.index()] > 0) continue;
    const auto [same, fresh] = known.try_emplace(op, static_cast<std::uint32_t>(prices_->size()));
    if (fresh) {
      price_alone(plan_[op], topology_, carriers[op.index()], collectives_of, kept, *prices_);
    }
    price_of_[op.index()] = same->second;
  }
}

PricedPlan::PricedPlan(const Plan& part, const PricedPlan& whole, const std::vector<OpId>& ops)
    : plan_(part), topology_(whole.topology_), prices_(whole.prices_), fused_(fused_kernels(part)) {
  for (const OpId op : ops) price_of_.push_back(whole.price_of_[op.index()]);
  number();
}

PricedPlan::PricedPlan(const Plan& fewer, PricedPlan&& whole)
    : plan_(fewer),
      topology_(whole.topology_),
      prices_(std::move(whole.prices_)),
      price_of_(std::move(whole.price_of_)),
      number_of_(std::move(whole.number_of_)),
      numbers_(whole.numbers_),
      fused_(std::move(whole.fused_)) {}

}  // namespace moesim
