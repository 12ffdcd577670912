// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/link_classes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "sim/engine/port_backend.h"
#include "sim/plan/exchange_time.h"
#include "tests/engine/fixtures.h"

namespace moesim {
namespace {

/// Kilobytes between four GPUs: [from * 4 + to].
Op exchange_of(std::vector<std::int64_t> kilobytes) {
  for (std::int64_t& bytes : kilobytes) bytes *= 1000;
  Op op;
  op.stream = Stream::ep;
  op.group = Group::first(4);
  op.work = Exchange{ByteMatrix::from_dense(4, kilobytes), {}, false};
  return op;
}

TEST(LinkClasses, HoldLinksThatEveryExchangeLoadsAlike) {
  const Topology star = test::star(4);
  Plan plan{"p", 4, {}};
  plan.add(exchange_of({0, 1, 0, 0,  //
                        1, 0, 0, 0,  //
                        0, 0, 0, 2,  //
                        0, 0, 2, 0}));
  const PricedPlan first(plan, star);
  const LinkClasses pairs(first);
  EXPECT_EQ(pairs.count(), 2u);
  ASSERT_EQ(pairs.uses(first.price_of(OpId(0))).size(), 1u);  // the others end sooner
  EXPECT_NEAR(pairs.uses(first.price_of(OpId(0))).front().time.value, 2000 / 50e9, 1e-12);
  plan.add(exchange_of({0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const PricedPlan second(plan, star);
  const LinkClasses apart(second);
  // GPU 0 sends and GPU 1 receives in both; the other way round in the first only, in which they
  // are not the last.
  EXPECT_EQ(apart.count(), 3u);
  EXPECT_EQ(apart.uses(second.price_of(OpId(0))).size(), 2u);
  EXPECT_EQ(apart.uses(second.price_of(OpId(1))).size(), 1u);
}

// Brute force over all links: shared_times.
TEST(LinkClasses, LeaveOutNoLinkThatEndsAnExchange) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return std::uniform_int_distribution(0, n - 1)(random); };
  const Topology star = test::star(4);
  std::size_t left_out = 0;
  for (int round = 0; round < 200; ++round) {
    Plan plan{"p", 4, {}};
    for (const Stream stream : {Stream::ep, Stream::ep_2, Stream::param, Stream::dp, Stream::tp}) {
      std::vector<std::int64_t> kilobytes(16);
      for (int entry = 0; entry < 4; ++entry) {
        const int from = below(4);
        kilobytes[static_cast<std::size_t>(from * 4 + (from + 1 + below(3)) % 4)] = 1 + below(4);
      }
      plan.ops[plan.add(exchange_of(kilobytes)).index()].stream = stream;
    }
    const PricedPlan priced(plan, star);
    const LinkClasses classes(priced);
    std::vector<ExchangePrice> prices;
    for (OpId op(0); op.value < 5; ++op.value) {
      prices.push_back(priced[op]);
      left_out += prices.back()->loads.uses.size() - classes.uses(priced.price_of(op)).size();
    }
    const std::vector<Seconds> expected = shared_times(prices);
    const Timeline timeline = make_port_backend(star, test::test_gpus(4))->run(priced);
    for (std::size_t op = 0; op < expected.size(); ++op) {
      EXPECT_NEAR(timeline.ops[op][0].end.value, expected[op].value, 1e-15);
    }
  }
  EXPECT_GT(left_out, 500u);
}

}  // namespace
}  // namespace moesim
