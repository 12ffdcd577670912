// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/timeline.h"

#include <gtest/gtest.h>

#include "tests/plan/fixtures.h"

namespace moesim {
namespace {

using namespace test;

Interval from_to(double start, double end) { return {Seconds(start), Seconds(end)}; }

TEST(Intervals, AreThoseOfTheirRows) {
  const Intervals ops = {{from_to(1, 2), from_to(3, 4)}, {}, {from_to(5, 6)}};
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_TRUE(ops[1].empty());
  EXPECT_EQ(ops[0][1], from_to(3, 4));
  const OpIntervals first = ops[0];
  EXPECT_EQ(std::vector<Interval>(first.begin(), first.end()),
            (std::vector<Interval>{from_to(1, 2), from_to(3, 4)}));
  EXPECT_NE(ops, (Intervals{{from_to(1, 2), from_to(3, 4)}, {}, {from_to(5, 7)}}));
  EXPECT_NE(ops, (Intervals{{from_to(0, 2), from_to(3, 4)}, {}, {from_to(5, 6)}}));
  EXPECT_EQ(ops, (Intervals{{from_to(1, 2), from_to(3, 4)}, {}, {from_to(5, 6)}}));
}

TEST(Intervals, OneTimeOfSeveralIsKeptOnce) {
  Plan plan{
      "p",
      4,
      {exchange("x", {0, 1, 2, 3}, matrix(4, 1, {})), exchange("y", {0, 1, 2, 3}, matrix(4, 1, {})),
       exchange("z", {0, 1, 2, 3}, matrix(4, 1, {}))}};
  std::get<Exchange>(plan.ops[0].work).collectives = std::make_shared<const Collectives>(
      std::vector<std::vector<GpuId>>{{GpuId(0), GpuId(2)}, {GpuId(1), GpuId(3)}}, true);
  Intervals ops;
  ops.add_ops(plan, {{.common_end = true},
                     {.starts_with_end_of = OpId(0), .common_end = true},
                     {.starts_with_end_of = OpId(1)}});
  ops.start(0, 3) = Seconds(1);
  ops.end(0, 3) = Seconds(2);
  ops.end(0, 0) = Seconds(3);
  ops.end(1, 2) = Seconds(5);
  ops.end(2, 1) = Seconds(6);
  EXPECT_EQ(ops, (Intervals{{from_to(0, 3), from_to(0, 2), from_to(0, 3), from_to(1, 2)},
                            {from_to(3, 5), from_to(2, 5), from_to(3, 5), from_to(2, 5)},
                            {from_to(5, 0), from_to(5, 6), from_to(5, 0), from_to(5, 0)}}));
}

// Two kernels behind an exchange, and what waits for them and for another exchange.
TEST(Intervals, TimesThatFollowFromOthersAreNotKept) {
  const Group pair = {GpuId(0), GpuId(1)};
  Plan plan{"p",
            2,
            {exchange("x", {0, 1}, matrix(2, 1, {})), kernel("k", 0), kernel("l", 0),
             exchange("y", {0, 1}, matrix(2, 1, {}))}};
  for (Op& op : plan.ops) op.group = pair;
  const std::vector<Seconds> first = {Seconds(4)}, second = {Seconds(1), Seconds(2)};
  Intervals ops;
  ops.add_ops(plan,
              {{.common_end = true},
               {.starts_with_end_of = OpId(0), .takes = first.data()},
               {.starts_with_end_of = OpId(1), .takes = second.data(), .takes_by_member = true},
               {.starts_with_end_of = OpId(0), .and_of = OpId(2), .common_end = true}});
  EXPECT_TRUE(ops.keeps_starts(0));
  EXPECT_FALSE(ops.keeps_starts(1) || ops.keeps_starts(3));
  ops.end(0, 1) = Seconds(10);
  ops.end(3, 0) = Seconds(20);
  EXPECT_EQ(ops, (Intervals{{from_to(0, 10), from_to(0, 10)},
                            {from_to(10, 14), from_to(10, 14)},
                            {from_to(14, 15), from_to(14, 16)},
                            {from_to(15, 20), from_to(16, 20)}}));
}

}  // namespace
}  // namespace moesim
