// SPDX-License-Identifier: Apache-2.0
// The expert swap of HierMoE against trying every pair with the cost model itself.
#include "sim/mechanism/placement/training/expert_swap.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/model/collective_cost.h"
#include "tests/mechanism/placement/training/gamma_norm.h"
#include "tests/mechanism/placement/training/routed_layer.h"
#include "tests/model/one_token.h"

namespace moesim {
namespace {

/// Eight GPUs in two nodes of two pairs.
CollectiveCosts eight_gpus() {
  CollectiveCosts costs;
  costs.nesting = {8, {1, 2, 4}};
  costs.flat = {Seconds(5e-6), 9e-10};
  costs.inter = {{Seconds(3e-6), 7e-10}, {Seconds(2e-6), 2e-10}};
  costs.intra = {{Seconds(1e-6), 3e-10}, {Seconds(1e-6), 1e-10}};
  return costs;
}

constexpr Bytes row(4096);

GroupCounts counts_of(const CollectiveCosts& costs, CountReading reading, const SlotTable& table,
                      const RoutedLayer& routed) {
  const std::vector<GpuId> owners = owners_of(table);
  GroupCounts counts(costs.nesting, reading);
  for (std::size_t s = 0; s < routed.ranks.size(); ++s) {
    const TokenRun run = routed.ranks[s].front();
    for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
      std::vector<GpuId> targets;
      for (int k = 0; k < routed.top_k; ++k) {
        targets.push_back(owners[static_cast<std::size_t>(routed.ids().at(t, k))]);
      }
      add_token(counts, GpuId(static_cast<std::int64_t>(s)), targets);
    }
  }
  return counts;
}

/// t_d of the cost model, which uses the hard maximum.
Seconds model_time(const CollectiveCosts& costs, int depth, CountReading reading,
                   const SlotTable& table, const RoutedLayer& routed) {
  const GroupCounts counts = counts_of(costs, reading, table, routed);
  return depth_times(costs, counts.stage_rows(Copies::per_group),
                     row)[static_cast<std::size_t>(depth - 1)];
}

SlotTable scattered() {
  return slots({{3, 11}, {14, 0}, {7, 2}, {9, 15}, {4, 13}, {8, 1}, {5, 10}, {12, 6}});
}

struct SwapCase {
  int depth;
  CountReading reading;
};

class SwapOf : public testing::TestWithParam<SwapCase> {};

TEST_P(SwapOf, HardMaximumIsTheCostModelOfEveryPair) {
  const CollectiveCosts costs = eight_gpus();
  const auto [depth, reading] = GetParam();
  const RoutedLayer routed = random_routed(9, 16, 4, 8, 30);
  const SwapObjective objective{costs, depth, row, reading, {MaximumKind::hard}};
  const LayerChoices choices{routed.ids(), routed.ranks};
  const auto times = swap_times(objective, scattered(), choices);
  Seconds least = times.front();
  for (int r = 0; r < 16; ++r) {
    for (int c = 0; c < 16; ++c) {
      const SlotTable after = swapped(scattered(), ExpertId(r), ExpertId(c));
      const Seconds expected = model_time(costs, depth, reading, after, routed);
      const Seconds time = times[static_cast<std::size_t>(r * 16 + c)];
      ASSERT_NEAR(time.value, expected.value, 1e-12 * expected.value) << r << " and " << c;
      ASSERT_EQ(time, times[static_cast<std::size_t>(c * 16 + r)]);
      least = std::min(least, time);
    }
    EXPECT_EQ(times[static_cast<std::size_t>(r * 17)], times.front());
  }
  const auto swap = find_swap(objective, scattered(), choices);
  ASSERT_TRUE(swap);
  EXPECT_NEAR(swap->after.value, least.value, 1e-12 * least.value);
  EXPECT_EQ(swap->before, times.front());
  for (int r = 0; r <= swap->first.value; ++r) {
    for (int c = r + 1; c < (r == swap->first.value ? swap->second.value : 16); ++c) {
      EXPECT_GT(times[static_cast<std::size_t>(r * 16 + c)].value, least.value * (1 + 1e-12));
    }
  }
}

/// Q by its definition: recount with the experts exchanged, then t_d with smax for max.
TEST_P(SwapOf, SmoothMaximumIsRecounting) {
  const CollectiveCosts costs = eight_gpus();
  const int depth = GetParam().depth;
  const CountReading reading = GetParam().reading;
  const RoutedLayer routed = random_routed(10, 16, 4, 8, 30);
  const LayerChoices choices{routed.ids(), routed.ranks};
  const auto times = swap_times({costs, depth, row, reading}, scattered(), choices);
  for (int r = 0; r < 16; ++r) {
    for (int c = r; c < 16; ++c) {
      const SlotTable after = swapped(scattered(), ExpertId(r), ExpertId(c));
      const GroupCounts counts = counts_of(costs, CountReading::max, after, routed);
      StageRows rows{0, {0, 0}, {0, 0}};
      const auto smooth = [&](int within, int level) {
        if (reading == CountReading::mean) within = 3;
        double worst = 0;
        std::vector<double> sums(static_cast<std::size_t>(costs.nesting.groups_at(level)));
        const auto by_index = counts.by_index(within, level, Copies::per_group);
        for (const auto& table : by_index) {
          worst = std::max(worst, gamma_norm(std::vector<double>(table.begin(), table.end()), 10));
        }
        return worst * costs.nesting.groups_at(level) / costs.nesting.groups_at(within);
      };
      rows.flat = smooth(0, 3);
      rows.inter = {smooth(0, 1), smooth(1, 2)};
      rows.intra = {smooth(1, 3), smooth(2, 3)};
      const Seconds expected = depth_times(costs, rows, row)[static_cast<std::size_t>(depth - 1)];
      ASSERT_NEAR(times[static_cast<std::size_t>(r * 16 + c)].value, expected.value,
                  1e-12 * expected.value);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Depths, SwapOf,
    testing::Values(SwapCase{1, CountReading::mean}, SwapCase{2, CountReading::mean},
                    SwapCase{3, CountReading::mean}, SwapCase{1, CountReading::max},
                    SwapCase{2, CountReading::max}, SwapCase{3, CountReading::max}),
    [](const auto& c) {
      return (c.param.reading == CountReading::mean ? "mean" : "max") +
             std::to_string(c.param.depth);
    });

TEST(ExpertSwapTest, PublishedExampleTiesToTheSmallestPair) {
  const RoutedLayer routed(4, 2, 2, {0, 2, 0, 2, 1, 3, 0, 1});
  CollectiveCosts costs;
  costs.nesting = {2, {1}};
  costs.flat = {Seconds(0), 1};
  for (const auto kind : {MaximumKind::hard, MaximumKind::smooth, MaximumKind::log_sum_exp}) {
    const auto swap = find_swap({costs, 1, Bytes(1), CountReading::mean, {kind}},
                                slots({{0, 1}, {2, 3}}), {routed.ids(), routed.ranks});
    ASSERT_TRUE(swap);
    EXPECT_EQ(swap->first, ExpertId(0));
    EXPECT_EQ(swap->second, ExpertId(3));
  }
}

TEST(ExpertSwapTest, NoneWhereNoPairImproves) {
  const RoutedLayer routed(4, 1, 4, {0, 1, 2, 3});
  CollectiveCosts costs = eight_gpus();
  costs.nesting = {4, {1, 2}};
  costs.inter.resize(1);
  costs.intra.resize(1);
  for (const int depth : {1, 2}) {
    EXPECT_FALSE(
        find_swap({costs, depth, row}, slots({{0}, {1}, {2}, {3}}), {routed.ids(), routed.ranks}));
  }
}

TEST(ExpertSwapTest, TwiceRestoresAndOneGpuChangesNothing) {
  const CollectiveCosts costs = eight_gpus();
  const RoutedLayer routed = random_routed(2, 16, 4, 8, 20);
  const LayerChoices choices{routed.ids(), routed.ranks};
  const SwapObjective objective{costs, 3, row};
  const SlotTable once = swapped(scattered(), ExpertId(3), ExpertId(12));
  EXPECT_NE(once, scattered());
  EXPECT_EQ(swapped(once, ExpertId(3), ExpertId(12)), scattered());
  const auto times = swap_times(objective, scattered(), choices);
  EXPECT_EQ(times[3 * 16 + 11], times[0]);  // both on GPU 0
  EXPECT_NE(times[3 * 16 + 12], times[0]);
}

/// Experts 3 and 14 share a node and a pair but no GPU: the node and pair stages keep their time.
TEST(ExpertSwapTest, GroupsAreComparedLevelByLevel) {
  CollectiveCosts costs = eight_gpus();
  const RoutedLayer routed = random_routed(4, 16, 4, 8, 20);
  const LayerChoices choices{routed.ids(), routed.ranks};
  const std::size_t pair = 3 * 16 + 14;
  const auto both = swap_times({costs, 3, row}, scattered(), choices);
  EXPECT_NE(both[pair], both[0]);
  costs.intra[1].seconds_per_byte = 0;
  const auto outer = swap_times({costs, 3, row}, scattered(), choices);
  EXPECT_EQ(outer[pair], outer[0]);
}

TEST(ExpertSwapTest, RefusesWhatDoesNotFit) {
  const CollectiveCosts costs = eight_gpus();
  const RoutedLayer routed = random_routed(4, 16, 4, 8, 2);
  const LayerChoices choices{routed.ids(), routed.ranks};
  EXPECT_THROW(find_swap({costs, 4, row}, scattered(), choices), Error);
  EXPECT_THROW(find_swap({costs, 1, row}, slots({{0}, {1}}), choices), Error);
  SlotTable twice = scattered();
  twice[0][0] = ExpertId(11);
  EXPECT_THROW(find_swap({costs, 1, row}, twice, choices), Error);
}

}  // namespace
}  // namespace moesim
