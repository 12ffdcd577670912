// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/flex.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/baselines.h"
#include "sim/mechanism/placement/fsep/spread.h"
#include "tests/mechanism/placement/fsep/cases.h"

namespace moesim::fsep {
namespace {

LoadMatrix from_rank_0(int ranks, const std::vector<std::int64_t>& counts) {
  LoadMatrix loads(ranks, static_cast<int>(counts.size()));
  for (std::size_t e = 0; e < counts.size(); ++e) {
    loads.at(GpuId(0), ExpertId(static_cast<std::int64_t>(e))) = counts[e];
  }
  return loads;
}

std::int64_t most(const LoadMatrix& loads, const SlotTable& slots, const SlotGrid& grid) {
  const Placement placement(loads.experts(), slots);
  const auto ranks =
      per_rank(placement, spread(loads, Reach(placement, grid.ranks_per_node)).slots);
  return *std::max_element(ranks.begin(), ranks.end());
}

TEST(FlexTest, HandsAColdSlotToTheHotExpert) {
  // Per copy 50, 60, 0: rank 0 has 110. Expert 1 takes the slot of expert 0 there: 60 and 100. The
  // next step (hot 0 next to 0 on rank 1) leaves the maximum at 100 and is undone.
  const FlexPlan plan = flex_plan(from_rank_0(2, {100, 60, 0}), table({{0, 1}, {0, 2}}), {2, 2, 2});
  EXPECT_EQ(plan.slots, table({{1, 1}, {0, 2}}));
  EXPECT_EQ(plan.steps, 1);
}

TEST(FlexTest, WithoutARankForTheHotExpertTheColdOneGivesWayInPlace) {
  // Hot 0 fills rank 0, cold 1 both slots of rank 1: x does not exist.
  const FlexPlan plan = flex_plan(from_rank_0(2, {100, 10}), table({{0, 0}, {1, 1}}), {2, 2, 2}, 1);
  EXPECT_EQ(plan.slots, table({{0, 0}, {0, 1}}));
}

TEST(FlexTest, StopsWhenNoExpertMayGive) {
  // One copy per node of each: nothing is cold.
  const SlotTable single = table({{0}, {1}});
  const FlexPlan plan = flex_plan(from_rank_0(2, {100, 1}), single, {2, 2, 1});
  EXPECT_EQ(plan.slots, single);
  EXPECT_EQ(plan.steps, 0);
}

TEST(FlexTest, BalancedLoadsStay) {
  const SlotTable even = table({{0, 1}, {0, 1}});
  EXPECT_EQ(flex_plan(from_rank_0(2, {100, 2}), even, {2, 2, 2}).steps, 0);
}

TEST(FlexTest, ImprovesAndKeepsEveryExpert) {
  const std::vector<SlotGrid> grids = {{8, 8, 2}, {32, 8, 4}, {12, 4, 2}, {8, 2, 2}};
  int steps = 0;
  for (const SlotGrid& grid : grids) {
    for (unsigned seed = 0; seed < 10; ++seed) {
      for (const int experts : {4, 8, 15}) {
        const LoadMatrix loads = random_loads(grid.ranks, experts, seed, 0.2 * seed);
        const SlotTable start = initial_slots(experts, grid);
        const FlexPlan plan = flex_plan(loads, start, grid);
        EXPECT_NO_THROW(Placement(experts, plan.slots));
        for (const auto& rank : plan.slots) {
          EXPECT_EQ(static_cast<int>(rank.size()), grid.slots_per_rank);
        }
        if (plan.steps == 0) {
          EXPECT_EQ(plan.slots, start);
        }
        if (plan.steps == 1) {
          EXPECT_NE(plan.slots, start);
        }
        EXPECT_LE(plan.steps, 10);
        steps += plan.steps;
      }
    }
  }
  EXPECT_GT(steps, 100);
}

TEST(FlexTest, LightensTheMostLoadedRankOfSomeLoads) {
  // Not of all: opening a second slot on a rank that already holds the hot expert can add to it.
  const SlotGrid grid{32, 8, 2};
  const SlotTable start = fsdp_ep_slots(8, grid);
  int lighter = 0;
  for (unsigned seed = 0; seed < 10; ++seed) {
    const LoadMatrix loads = random_loads(32, 8, seed, 0.1 * seed);
    const FlexPlan plan = flex_plan(loads, start, grid);
    lighter += most(loads, plan.slots, grid) < most(loads, start, grid) ? 1 : 0;
  }
  EXPECT_GE(lighter, 3);
}

TEST(FlexTest, RefusesAnotherGrid) {
  EXPECT_THROW(flex_plan(from_rank_0(2, {1, 1}), table({{0, 1}}), {2, 2, 2}), Error);
  EXPECT_THROW(flex_plan(from_rank_0(2, {1, 1}), table({{0, 1}, {0}}), {2, 2, 2}), Error);
}

}  // namespace
}  // namespace moesim::fsep
