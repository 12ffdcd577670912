// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/lite_routing.h"

#include <gtest/gtest.h>

#include "tests/mechanism/placement/fsep/cases.h"

namespace moesim::fsep {
namespace {

/// 16 ranks of 2 nodes with one slot each: expert 0 on `ranks`, expert 1 on the others.
Placement holding(const std::vector<int>& ranks) {
  std::vector<std::vector<int>> experts(16, {1});
  for (const int rank : ranks) experts[static_cast<std::size_t>(rank)] = {0};
  return Placement(2, table(experts));
}

Shares shares(const Placement& placement, int source, std::int64_t choices) {
  LoadMatrix loads(16, 2);
  loads.at(GpuId(source), ExpertId(0)) = choices;
  return lite_shares(loads, Reach(placement, 8))[static_cast<std::size_t>(source)][0];
}

TEST(LiteRoutingTest, UsesTheNodesSlotsElseAll) {
  const Placement three = holding({0, 3, 9});
  EXPECT_EQ(shares(three, 1, 7), (Shares{{SlotId(0), 4}, {SlotId(3), 3}}));
  EXPECT_EQ(shares(three, 12, 7), (Shares{{SlotId(9), 7}}));
  const Placement far = holding({2, 5});
  EXPECT_EQ(shares(far, 12, 5), (Shares{{SlotId(2), 3}, {SlotId(5), 2}}));
}

TEST(LiteRoutingTest, LeavesOutSlotsWithoutChoices) {
  const Placement two = holding({2, 5});
  EXPECT_EQ(shares(two, 12, 1), (Shares{{SlotId(2), 1}}));
  EXPECT_EQ(shares(two, 12, 0), (Shares{{SlotId(2), 1}}));
}

TEST(LiteRoutingTest, SumsByDistance) {
  const Placement placement = holding({0, 3, 9});
  const Reach reach(placement, 8);
  LoadMatrix loads(16, 2);
  loads.at(GpuId(0), ExpertId(0)) = 7;  // 4 stay, 3 go to rank 3
  loads.at(GpuId(3), ExpertId(0)) = 5;  // 3 go to rank 0, 2 stay
  const Spread sums = spread(loads, reach);
  EXPECT_EQ(sums.distance.same_rank, 6);
  EXPECT_EQ(sums.distance.same_node, 6);
  EXPECT_EQ(sums.distance.other_node, 0);
  EXPECT_EQ(sums.slots[0], 7);
  EXPECT_EQ(sums.slots[3], 5);
  const Placement elsewhere = holding({9, 10});
  EXPECT_EQ(spread(loads, Reach(elsewhere, 8)).distance.other_node, 12);
}

}  // namespace
}  // namespace moesim::fsep
