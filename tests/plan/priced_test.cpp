// SPDX-License-Identifier: Apache-2.0
// Prices of a plan's exchanges: what one of them costs by itself, and as a part of a fused kernel.
#include "sim/plan/priced.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "sim/plan/slice.h"
#include "sim/topology/bandwidth_table.h"
#include "sim/transport/transport.h"
#include "tests/engine/fixtures.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

Op tokens(int from, int to, std::uint32_t kilobytes, int layer, int part) {
  const auto entry = [](int gpu) { return static_cast<std::uint32_t>(gpu); };
  Op op = exchange("x", {0, 1, 2}, matrix(3, 1000, {{entry(from), entry(to), kilobytes}}));
  op.key = {.kind = OpKind::token_exchange, .stage = Stage::dispatch, .layer = layer, .part = part};
  return op;
}

/// A link takes 40 us for 500 kB and 50 us for 1 MB; a kernel starts in 10 us.
Transports fusing(bool fused) {
  Transport transport;
  transport.fused = fused;
  transport.start_up = TierTimes{Seconds(0), Seconds(10e-6), Seconds(0)};
  const std::vector<BandwidthTable::Point> points = {{Bytes(500'000), BytesPerSecond(12.5e9)},
                                                     {Bytes(1'000'000), BytesPerSecond(20e9)}};
  transport.links = {
      {"port", "", BytesPerSecond(50e9), std::make_shared<const BandwidthTable>(points)}};
  Transports transports;
  transports.tokens = std::make_shared<const Transport>(std::move(transport));
  return transports;
}

struct MicrosecondsOf {
  explicit MicrosecondsOf(const ExchangePrice& price)
      : overhead(price->alone.overhead.value * 1e6), transfer(price->alone.transfer.value * 1e6) {}
  double overhead, transfer;
};

TEST(PricedPlan, PhasesOfAFusedKernelShareTheTimeOfAllTheirBytes) {
  const Topology cluster = star(3);
  Plan plan{"p",
            3,
            {kernel("k", 0), tokens(0, 1, 500, 0, 0), tokens(0, 1, 500, 0, 1),
             tokens(0, 2, 500, 1, 0), tokens(0, 1, 500, 0, 2)}};
  plan.transports = fusing(false);
  const PricedPlan alone(plan, cluster);
  EXPECT_EQ(alone[OpId(0)], nullptr);
  for (const int op : {1, 2, 3, 4}) {
    const MicrosecondsOf price(alone[OpId(op)]);
    EXPECT_NEAR(price.overhead, 10, 1e-9);
    EXPECT_NEAR(price.transfer, 40, 1e-9);
  }
  plan.transports = fusing(true);
  plan.ops.pop_back();
  const PricedPlan fused(plan, cluster);
  EXPECT_NEAR(MicrosecondsOf(fused[OpId(1)]).overhead, 10, 1e-9);
  EXPECT_NEAR(MicrosecondsOf(fused[OpId(1)]).transfer, 25, 1e-9);
  EXPECT_NEAR(MicrosecondsOf(fused[OpId(2)]).overhead, 0, 1e-9);
  EXPECT_NEAR(MicrosecondsOf(fused[OpId(2)]).transfer, 25, 1e-9);
  EXPECT_NEAR(MicrosecondsOf(fused[OpId(3)]).overhead, 10, 1e-9);  // of another layer
  EXPECT_NEAR(MicrosecondsOf(fused[OpId(3)]).transfer, 40, 1e-9);
}

TEST(PricedPlan, EqualExchangesAndKernelsArePricedOnce) {
  const Topology cluster = star(3);
  const Op first = tokens(0, 1, 500, 0, 0), second = tokens(0, 2, 500, 0, 1);
  Plan plan{"p", 3, {first, second, first, second, kernel("k", 1)}};
  plan.ops[2].key.layer = plan.ops[3].key.layer = 1;
  for (const bool fused : {false, true}) {
    plan.transports = fusing(fused);
    const PricedPlan priced(plan, cluster);
    EXPECT_EQ(priced[OpId(0)], priced[OpId(2)]);
    EXPECT_EQ(priced[OpId(1)], priced[OpId(3)]);
    EXPECT_NE(priced[OpId(0)], priced[OpId(1)]);
    EXPECT_EQ(priced.price_of(OpId(0)), priced.price_of(OpId(2)));
    EXPECT_EQ(priced.price_of(OpId(4)), 0u);
    EXPECT_EQ(priced.prices().size(), 3u);
    EXPECT_EQ(priced.fused().size(), fused ? 2u : 0u);
    const Plan part = slice(plan, ids<OpId>({1, 4, 3}));
    const PricedPlan cut(part, priced, ids<OpId>({1, 4, 3}));
    EXPECT_EQ(cut[OpId(0)], priced[OpId(1)]);
    EXPECT_EQ(cut[OpId(1)], nullptr);
    EXPECT_EQ(cut[OpId(2)], priced[OpId(3)]);
  }
}

TEST(PricedPlan, RowsThatAnotherTransportBringsBackHaveItsTimes) {
  const Topology cluster = star(3);
  Transport there = *fusing(true).tokens, back = there;
  back.start_up = TierTimes{Seconds(0), Seconds(30e-6), Seconds(0)};
  back.links.clear();
  there.combine = std::make_shared<const Transport>(std::move(back));
  const Transports transports{std::make_shared<const Transport>(std::move(there)), nullptr};
  const Op forward = tokens(0, 1, 500, 0, 0);
  Op backward = forward;
  backward.key.pass = Pass::backward;
  Plan both{"p", 3, {forward, backward}}, one{"p", 3, {backward}};
  both.transports = one.transports = transports;
  const PricedPlan priced(both, cluster), by_itself(one, cluster);
  EXPECT_NEAR(MicrosecondsOf(priced[OpId(0)]).overhead, 10, 1e-9);
  EXPECT_NEAR(MicrosecondsOf(priced[OpId(1)]).overhead, 30, 1e-9);
  EXPECT_NEAR(MicrosecondsOf(priced[OpId(1)]).transfer, 10, 1e-9);
  EXPECT_EQ(priced[OpId(1)]->loads.uses, by_itself[OpId(0)]->loads.uses);
  EXPECT_EQ(priced[OpId(1)]->alone.latency, by_itself[OpId(0)]->alone.latency);
}

TEST(PricedPlan, WhatTellsPricesApart) {
  const Topology cluster = star(4);
  const ByteMatrix shared = matrix(2, 1000, {{0, 1, 500}});
  Plan plan{"p", 4, {}};
  for (const auto& gpus : {std::initializer_list<int>{0, 1}, {0, 1}, {2, 3}, {0, 1}, {0, 1}}) {
    plan.add(exchange("x", gpus, shared));
  }
  std::get<Exchange>(plan.ops[3].work).transposed = true;
  std::get<Exchange>(plan.ops[4].work).rounds = 3;
  const PricedPlan priced(plan, cluster);
  EXPECT_EQ(priced[OpId(0)], priced[OpId(1)]);
  for (const int op : {2, 3, 4}) EXPECT_NE(priced[OpId(0)], priced[OpId(op)]) << op;
  EXPECT_NEAR(priced[OpId(4)]->alone.latency.value, 3 * 5e-6, 1e-12);
}

TEST(PricedPlan, CollectivesOfTheSameRowsKeepTheirUnitsWaysAndRounds) {
  const Topology cluster = star(4);
  Op op = exchange("x", {0, 1, 2, 3}, matrix(4, 1000, {{0, 1, 500}, {3, 2, 700}}));
  std::get<Exchange>(op.work).collectives = std::make_shared<const Collectives>(
      std::vector{ids<GpuId>({0, 1}), ids<GpuId>({2, 3})}, true);
  Plan both{"p", 4, {op, op}};
  auto& second = std::get<Exchange>(both.ops[1].work);
  second.traffic = second.traffic.with_unit(Bytes(3000));
  second.transposed = true;
  second.rounds = 5;
  const PricedPlan priced(both, cluster);
  for (const int id : {0, 1}) {
    const Plan one{"p", 4, {both[OpId(id)]}};
    const PricedPlan by_itself(one, cluster);
    for (const std::size_t collective : {0U, 1U}) {
      const PricedExchange& price = *priced.prices_of(OpId(id))[collective];
      const PricedExchange& expected = *by_itself.prices_of(OpId(0))[collective];
      EXPECT_EQ(price.alone.transfer, expected.alone.transfer);
      EXPECT_EQ(price.alone.latency, expected.alone.latency);
      EXPECT_TRUE(std::ranges::equal(price.loads.uses, expected.loads.uses, {}, &LinkUse::link,
                                     &LinkUse::link));
    }
  }
}

TEST(PricedPlan, NeedsTheGpusOfTheCluster) {
  const Topology cluster = star(3);
  const Plan plan{"p", 2, {}};
  EXPECT_EQ(error_of([&] { PricedPlan(plan, cluster); }),
            "error: plan 'p' is for 2 GPUs, but the cluster has 3\n");
}

}  // namespace
}  // namespace moesim
