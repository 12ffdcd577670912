// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/link_classes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

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
  EXPECT_EQ(pairs.count(), 3u);  // one of links that nothing uses
  EXPECT_EQ(pairs.uses(*first[OpId(0)]).size(), 2u);
  plan.add(exchange_of({0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const PricedPlan second(plan, star);
  const LinkClasses apart(second);
  const auto& uses = apart.uses(*second[OpId(0)]);
  // GPU 0 sends and GPU 1 receives in both; the other way round in the first only.
  EXPECT_EQ(uses.size(), 3u);
  EXPECT_EQ(apart.uses(*second[OpId(1)]).size(), 1u);
}

}  // namespace
}  // namespace moesim
