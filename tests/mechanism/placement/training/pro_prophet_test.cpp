// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/pro_prophet.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

using Counts = std::vector<std::int64_t>;

/// A row a second, a choice a second; 100 s for parameters and 40 s for gradients of one expert.
ProphetModel slow() {
  ProphetModel model;
  model.input = Bytes(1);
  model.parameters = Bytes(100);
  model.gradients = Bytes(40);
  model.bandwidth = BytesPerSecond(1);
  model.throughput = 1;
  return model;
}

const SlotTable prophet_slots = slots({{0}, {1}, {2}, {3}});
const LoadMatrix skewed_matrix =
    loads_of({{100, 5, 0, 5}, {80, 20, 0, 0}, {60, 0, 10, 0}, {40, 0, 0, 30}});

TEST(ProphetLoadsTest, CopiesKeepChoicesAtTheirSourceUnlessExcluded) {
  ProphetLoads loads = prophet_loads(skewed_matrix, prophet_slots, {});
  EXPECT_EQ(loads.computed, (Counts{280, 25, 10, 35}));
  EXPECT_EQ(loads.received, (Counts{180, 5, 0, 5}));
  loads = prophet_loads(skewed_matrix, prophet_slots, {{ExpertId(0), {GpuId(3)}}});
  EXPECT_EQ(loads.computed, (Counts{140, 105, 70, 35}));
  EXPECT_EQ(loads.received, (Counts{40, 5, 0, 5}));
}

TEST(ProphetTimeTest, ExposesTransfersBeyondWhatHidesThem) {
  const ProphetLoads loads{{7, 3}, {10, 20}};
  ProphetModel model = slow();
  model.dense_forward = Seconds(15);
  model.dense_backward = Seconds(8);
  // 4 x 7 + 3 x 20; out 2 x 100 - 20 - 15; back 2 x 40 - 40 - 8.
  EXPECT_DOUBLE_EQ(prophet_time(model, loads, 2, 0).value, 88 + 165 + 32);
  EXPECT_DOUBLE_EQ(prophet_time(model, loads, 2, 1).value, 88 + 65);  // halved: 100 and 40
  EXPECT_DOUBLE_EQ(prophet_time(model, loads, 0, 0).value, 88);
  model.overlapped = false;
  EXPECT_DOUBLE_EQ(prophet_time(model, loads, 2, 1).value, 88 + 100 + 40);
}

TEST(ProphetPlanTest, CopiesTheLoadedExpert) {
  ProphetModel model = slow();
  model.dense_forward = model.dense_backward = Seconds(1000);
  const ProphetPlan plan = prophet_plan(model, {1, 1}, skewed_matrix, prophet_slots);
  ASSERT_EQ(plan.copies, (std::vector<ProphetCopy>{{ExpertId(0), {GpuId(3)}}}));
  EXPECT_DOUBLE_EQ(plan.time.value, 4 * 40 + 3 * 140);
  EXPECT_EQ(plan.table, slots({{0}, {1, 0}, {2, 0}, {3}}));
  EXPECT_EQ(off_gpu(plan.broadcast), Bytes(200));
  EXPECT_EQ(off_gpu(plan.reduce), Bytes(80));
  EXPECT_EQ(plan.reduce[0], (ExpertTransfer{ExpertId(0), GpuId(1), GpuId(0), Bytes(40)}));
}

TEST(ProphetPlanTest, LeavesLoadsThatAreEvenEnough) {
  // 350 choices of 4 experts: the spread of 270 reaches 3 x 87.5, not 4 x 87.5.
  ProphetModel model = slow();
  model.dense_forward = model.dense_backward = Seconds(1000);
  EXPECT_EQ(prophet_plan(model, {3, 0}, skewed_matrix, prophet_slots).copies.size(), 1u);
  EXPECT_TRUE(prophet_plan(model, {4, 0}, skewed_matrix, prophet_slots).copies.empty());
}

TEST(ProphetPlanTest, CopiesNothingThatCostsMoreThanItSaves) {
  ProphetModel model = slow();
  model.parameters = Bytes(100'000);
  const ProphetPlan plan = prophet_plan(model, {1, 0}, skewed_matrix, prophet_slots);
  EXPECT_TRUE(plan.copies.empty());
  EXPECT_EQ(plan.table, prophet_slots);
  EXPECT_DOUBLE_EQ(plan.time.value, 4 * 180 + 3 * 280);
}

/// The walk may pass a worse prefix on its way to a better one; no prefix beats the plan.
TEST(ProphetPlanTest, IsTheBestPrefixOfTheWalk) {
  std::mt19937 random(8);
  int copied = 0;
  int unlike_all = 0;
  for (int round = 0; round < 200; ++round) {
    LoadMatrix loads(6, 12);
    for (int s = 0; s < 6; ++s) {
      for (int e = 0; e < 12; ++e) {
        loads.at(GpuId(s), ExpertId(e)) = static_cast<std::int64_t>(random() % 100 / (1 + e));
      }
    }
    const SlotTable table = slots({{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}});
    ProphetModel model = slow();
    model.dense_forward = model.dense_backward = Seconds(50);
    const ProphetPlan plan = prophet_plan(model, {0.1, 1}, loads, table);
    ProphetModel free_moves = model;  // only the largest H counts: a longer prefix wins
    free_moves.input = free_moves.parameters = free_moves.gradients = Bytes(0);
    const ProphetPlan longer = prophet_plan(free_moves, {0.1, 1}, loads, table);
    std::vector<ProphetCopy> prefix;
    for (const ProphetCopy& copy : longer.copies) {
      EXPECT_GE(prophet_time(model, prophet_loads(loads, table, prefix), prefix.size(), 1),
                plan.time);
      prefix.push_back(copy);
    }
    const ProphetLoads after = prophet_loads(loads, table, plan.copies);
    EXPECT_EQ(prophet_time(model, after, plan.copies.size(), 1), plan.time);
    std::int64_t before_sum = 0;
    std::int64_t after_sum = 0;
    for (const auto n : loads.per_expert()) before_sum += n;
    for (const auto n : after.computed) after_sum += n;
    EXPECT_EQ(before_sum, after_sum);
    copied += !plan.copies.empty();
    unlike_all += plan.copies.size() != longer.copies.size();
  }
  EXPECT_GT(copied, 0);
  EXPECT_GT(unlike_all, 0);
}

TEST(ProphetPlanTest, CopiesTheNextExpertOfAGpuThatStaysTheBusiest) {
  ProphetModel model = slow();
  model.parameters = model.gradients = Bytes(0);
  // GPU 0 computes 220 choices of others, then 100 and none.
  const LoadMatrix loads = loads_of({{0, 0, 0, 0}, {60, 50, 0, 0}, {60, 50, 0, 0}});
  const ProphetPlan plan = prophet_plan(model, {0.5, 0}, loads, slots({{0, 1}, {2}, {3}}));
  EXPECT_EQ(plan.copies, (std::vector<ProphetCopy>{{ExpertId(0), {}}, {ExpertId(1), {}}}));
  EXPECT_DOUBLE_EQ(plan.time.value, 3 * 110);
}

TEST(ProphetPlanTest, StopsWhenTheBusiestGpuHasNothingLeft) {
  // All of GPU 0's work is its own: copying its only expert changes nothing.
  const LoadMatrix own = loads_of({{90, 0}, {0, 1}});
  ProphetModel free_moves = slow();
  free_moves.parameters = free_moves.gradients = Bytes(0);
  EXPECT_TRUE(prophet_plan(free_moves, {0.5, 0}, own, slots({{0}, {1}})).copies.empty());
}

TEST(ProphetPlanTest, TakesTheLowestExpertAndNeverExcludesItsOwner) {
  ProphetModel model = slow();
  model.parameters = model.gradients = Bytes(0);
  const LoadMatrix loads = loads_of({{0, 0, 0, 0}, {40, 60, 1, 0}, {60, 40, 0, 0}});
  const ProphetPlan plan = prophet_plan(model, {3, 1}, loads, slots({{1, 0}, {2}, {3}}));
  EXPECT_EQ(plan.copies, (std::vector<ProphetCopy>{{ExpertId(0), {GpuId(1)}}}));
}

TEST(ProphetPlanTest, CopiesWhereTheSpreadIsJustTheBalanceAndSkipsTheLowestOfEqualGpus) {
  ProphetModel model = slow();
  model.parameters = model.gradients = Bytes(0);
  const SlotTable table = slots({{0}, {1}, {2}});
  // 4, 1 and 1 choices: the spread of 3 is 1.5 times the mean of 2, and not less.
  const LoadMatrix spread = loads_of({{1, 0, 0}, {1, 1, 0}, {2, 0, 1}});
  EXPECT_EQ(prophet_plan(model, {1.5, 0}, spread, table).copies.size(), 1u);
  EXPECT_TRUE(prophet_plan(model, {1.75, 0}, spread, table).copies.empty());
  const LoadMatrix equal = loads_of({{1, 0, 0}, {2, 1, 0}, {2, 0, 1}});
  const auto copies = prophet_plan(model, {0.5, 1}, equal, table).copies;
  ASSERT_FALSE(copies.empty());
  EXPECT_EQ(copies[0], (ProphetCopy{ExpertId(0), {GpuId(1)}}));
}

TEST(ProphetPlanTest, ExcludableNeedsAnUnwantingGpuPerExpert) {
  EXPECT_EQ(excludable(skewed_matrix), 0);
  EXPECT_EQ(excludable(loads_of({{3, 0}, {0, 4}})), 1);
}

TEST(ProphetPlanTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(prophet_plan(slow(), {1, 4}, skewed_matrix, prophet_slots), Error);
  EXPECT_THROW(prophet_plan(slow(), {1, 0}, skewed_matrix, slots({{0}, {1, 2, 3}})), Error);
}

}  // namespace
}  // namespace moesim
