// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/trace/synth/random.h"
#include "tests/error_of.h"
#include "tests/mechanism/placement/serving/slot_table.h"

namespace moesim {
namespace {

TEST(WeightMovesTest, TakesTheNearestHolderAndNothingThatIsThere) {
  const SlotTable before = slot_table_of({{0, 1}, {2, 3}, {0, 4}, {5, 1}});
  const SlotTable after = slot_table_of({{1, 0}, {0, 0}, {2, 1}, {4, 3}});
  const std::vector<WeightMove> expected = {
      {ExpertId(0), GpuId(0), GpuId(1)},  // same node, once for two slots
      {ExpertId(2), GpuId(1), GpuId(2)},  // no holder in the node
      {ExpertId(1), GpuId(3), GpuId(2)},  // GPU 0 is lower, 3 is nearer
      {ExpertId(4), GpuId(2), GpuId(3)}, {ExpertId(3), GpuId(1), GpuId(3)},
  };
  EXPECT_EQ(weight_moves(before, after, std::vector{0, 0, 1, 1}), expected);
}

TEST(WeightMovesTest, RefusesExpertsNobodyHoldsAndOtherClusters) {
  const SlotTable two = slot_table_of({{0}, {1}});
  EXPECT_EQ(error_of([&] {
              weight_moves(two, slot_table_of({{0}, {2}}), std::vector{0, 0});
            }),
            "error: GPU 1 wants expert 2, which no GPU holds\n");
  EXPECT_EQ(error_of([&] {
              weight_moves(two, slot_table_of({{0}}), std::vector{0, 0});
            }),
            "error: 2 and 1 GPUs on hosts of 2 do not match\n");
}

TEST(WeightMovesTest, FillsEverySlotFromAHolderOfTheOldTable) {
  const std::vector<int> hosts = {0, 0, 0, 1, 1, 1, 1, 1};
  Random random(7);
  for (int trial = 0; trial < 100; ++trial) {
    SlotTable before(8), after(8);
    for (SlotTable* table : {&before, &after}) {
      for (auto& gpu : *table) {
        for (int s = 0; s < 4; ++s) gpu.emplace_back(random.below(6));
      }
    }
    for (int e = 0; e < 6; ++e) before[0].emplace_back(e);
    SlotTable reached = before;
    const auto holds = [](const SlotTable& table, GpuId gpu, ExpertId expert) {
      return std::count(table[gpu.index()].begin(), table[gpu.index()].end(), expert) > 0;
    };
    for (const WeightMove& move : weight_moves(before, after, hosts)) {
      EXPECT_TRUE(holds(before, move.from, move.expert));
      EXPECT_FALSE(holds(reached, move.to, move.expert)) << "moved in vain";
      reached[move.to.index()].push_back(move.expert);
    }
    for (int g = 0; g < 8; ++g) {
      for (const ExpertId expert : after[static_cast<std::size_t>(g)]) {
        EXPECT_TRUE(holds(reached, GpuId(g), expert));
      }
    }
    EXPECT_TRUE(weight_moves(after, after, hosts).empty());
  }
}

}  // namespace
}  // namespace moesim
