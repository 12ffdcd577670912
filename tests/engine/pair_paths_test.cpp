// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/pair_paths.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/engine/fixtures.h"

namespace moesim::test {
namespace {

/// A kernel, an exchange both ways that repeats, and data that stays where it is.
Plan both_ways() {
  PlanWriter w(2);
  w.compute(0, milliseconds(1));
  w.exchange({0, 1}, {{0, 1, 8}, {1, 0, 6}, {1, 1, 5}});
  w.exchange({0, 1}, {{1, 0, 7}});
  return w.plan();
}

TEST(PairPaths, AreThoseOfEachPairOnce) {
  std::string routes;
  const Plan moved = both_ways();
  const PairPaths paths(moved, two_spines(),
                        [&](GpuId from, GpuId to, int place, std::span<const LinkId> links) {
                          for (const std::int64_t number :
                               {std::int64_t{from.value}, std::int64_t{to.value},
                                std::int64_t{place}, static_cast<std::int64_t>(links.size())}) {
                            routes += std::to_string(number) + " ";
                          }
                        });
  EXPECT_EQ(routes, "0 1 0 4 0 1 1 4 1 0 0 4 1 0 1 4 ");
  ASSERT_EQ(paths.first(moved.ops[1].traffic(), GpuId(0), GpuId(1)), 0U);
  ASSERT_EQ(paths.first(moved.ops[1].traffic(), GpuId(1), GpuId(0)), 2U);
  for (const std::size_t first : {0U, 2U}) {
    const auto ways = paths.of(first);
    ASSERT_EQ(ways.size(), 2U);
    for (int place : {0, 1}) {
      const PairPaths::Way& way = ways[static_cast<std::size_t>(place)];
      EXPECT_EQ(way.place, place);
      EXPECT_EQ(way.share, 0.5);
      EXPECT_DOUBLE_EQ(way.latency.value, 10e-6);
    }
  }
}

TEST(PairPaths, PairsThatMoveAreCountedInEveryExchange) {
  EXPECT_EQ(pairs_that_move(both_ways()), 3);
}

}  // namespace
}  // namespace moesim::test
