// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/link_classes.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/fixtures.h"
#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

Op exchange(std::vector<std::array<std::uint32_t, 3>> entries) {
  Op op = test::named("dispatch");
  op.stream = Stream::ep;
  op.group = Group::first(4);
  op.work = Exchange{test::matrix(4, 1000, std::move(entries)), {}, false};
  return op;
}

TEST(LinkClasses, HoldLinksThatEveryExchangeLoadsAlike) {
  const Topology star = test::star(4);
  Plan plan{"p", 4, {}};
  plan.add(exchange({{0, 1, 1}, {1, 0, 1}, {2, 3, 2}, {3, 2, 2}}));
  const PricedPlan first(plan, star);
  const LinkClasses pairs(first);
  EXPECT_EQ(pairs.count(), 3u);  // one of links that nothing uses
  EXPECT_EQ(pairs.uses(*first[OpId(0)]).size(), 2u);
  plan.add(exchange({{0, 1, 1}}));
  const PricedPlan second(plan, star);
  const LinkClasses apart(second);
  const auto& uses = apart.uses(*second[OpId(0)]);
  // GPU 0 sends and GPU 1 receives in both; the other way round in the first only.
  EXPECT_EQ(uses.size(), 3u);
  EXPECT_EQ(apart.uses(*second[OpId(1)]).size(), 1u);
}

}  // namespace
}  // namespace moesim
