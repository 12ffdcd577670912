// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/baselines.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/spread.h"
#include "tests/mechanism/placement/fsep/cases.h"

namespace moesim::fsep {
namespace {

constexpr SlotGrid one_node{8, 8, 2};

TEST(BaselinesTest, InitialGoesRoundTheExperts) {
  EXPECT_EQ(initial_slots(8, one_node),
            table({{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_THROW(initial_slots(17, one_node), Error);
}

TEST(BaselinesTest, FsdpEpStridesTheExperts) {
  EXPECT_EQ(fsdp_ep_slots(8, one_node),
            table({{0, 4}, {1, 5}, {2, 6}, {3, 7}, {0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_THROW(fsdp_ep_slots(7, one_node), Error);
  EXPECT_THROW(fsdp_ep_slots(12, one_node), Error);  // groups of 6 do not tile 8 ranks
}

TEST(BaselinesTest, SmartFillsTheLightestRankOfAGroup) {
  const std::vector<std::int64_t> loads = {10, 7, 5, 1};
  EXPECT_EQ(smart_slots(loads, {4, 4, 2}), table({{0, 3}, {1, 2}, {0, 3}, {1, 2}}));
  const std::vector<std::int64_t> equal(4, 3);
  EXPECT_EQ(smart_slots(equal, {2, 2, 2}), table({{0, 2}, {1, 3}}));
}

// Two copies a node: of each of 8 sources and C experts the first copy gets 0 or 1 choice more.
TEST(BaselinesTest, FsdpEpLoadsOfANodesTwoCopiesDifferByTheOddChoices) {
  for (const int slots : {2, 4}) {
    const SlotGrid grid{32, 8, slots};
    const int experts = 4 * slots;
    const Placement placement(experts, fsdp_ep_slots(experts, grid));
    const LoadMatrix loads = random_loads(32, experts, 5, 0.5);
    const auto ranks = per_rank(placement, spread(loads, Reach(placement, 8)).slots);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (r % 8 >= 4) continue;
      EXPECT_GE(ranks[r] - ranks[r + 4], 0);
      EXPECT_LE(ranks[r] - ranks[r + 4], 8 * slots);
    }
  }
}

}  // namespace
}  // namespace moesim::fsep
