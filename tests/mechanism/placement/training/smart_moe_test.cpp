// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/smart_moe.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

using TokenLoads = std::vector<std::int64_t>;
constexpr Bytes size(100);

TEST(SmartMoeTest, FourGpusOfTwoSlots) {
  const TokenLoads loads = {10, 9, 8, 7, 4, 3, 2, 1};
  const SlotTable identity = slots({{0, 1}, {2, 3}, {4, 5}, {6, 7}});
  EXPECT_EQ(gpu_loads(identity, loads), (TokenLoads{19, 15, 7, 3}));
  const SmartMoeMapping mapping = smart_moe_map(identity, loads, size);
  EXPECT_EQ(mapping.table, slots({{0, 7}, {1, 6}, {2, 5}, {3, 4}}));
  EXPECT_EQ(gpu_loads(mapping.table, loads), (TokenLoads{11, 11, 11, 11}));
  // Slots of experts 0..7: 0 2 4 6 7 5 3 1; experts 0 and 5 keep theirs.
  ASSERT_EQ(mapping.transfers.size(), 6u);
  EXPECT_EQ(mapping.transfers[0], (ExpertTransfer{ExpertId(1), GpuId(0), GpuId(1), size}));
  EXPECT_EQ(mapping.transfers[5], (ExpertTransfer{ExpertId(7), GpuId(3), GpuId(0), size}));
  EXPECT_EQ(off_gpu(mapping.transfers), Bytes(600));
}

TEST(SmartMoeTest, EqualLoadsChangeNothing) {
  const SlotTable table = slots({{3, 1}, {2, 0}});
  const SmartMoeMapping mapping = smart_moe_map(table, TokenLoads{5, 5, 5, 5}, size);
  EXPECT_EQ(mapping.table, table);
  EXPECT_TRUE(mapping.transfers.empty());
}

/// The greedy order would swap GPUs 0 and 1, for the same largest load.
TEST(SmartMoeTest, AnotherMappingOfTheSameMaximumIsNotAdopted) {
  const SlotTable table = slots({{1, 2}, {0, 3}});
  EXPECT_EQ(smart_moe_map(table, TokenLoads{6, 5, 2, 1}, size).table, table);
}

TEST(SmartMoeTest, AnExpertPrefersItsOwnGpuAmongEquallyLoaded) {
  // Expert 0 finds both GPUs empty and stays on its own, GPU 1.
  const SmartMoeMapping mapping =
      smart_moe_map(slots({{2, 3}, {0, 1}}), TokenLoads{4, 3, 1, 0}, size);
  EXPECT_EQ(mapping.table, slots({{1, 2}, {0, 3}}));
  EXPECT_EQ(gpu_loads(mapping.table, TokenLoads{4, 3, 1, 0}), (TokenLoads{4, 4}));
}

TEST(SmartMoeTest, AMoveBetweenSlotsOfOneGpuStaysOnIt) {
  const SmartMoeMapping mapping =
      smart_moe_map(slots({{2, 0}, {1, 3}}), TokenLoads{9, 8, 7, 1}, size);
  EXPECT_EQ(mapping.table, slots({{0, 3}, {1, 2}}));
  EXPECT_EQ(mapping.transfers,
            (std::vector<ExpertTransfer>{{ExpertId(0), GpuId(0), GpuId(0), size},
                                         {ExpertId(2), GpuId(0), GpuId(1), size},
                                         {ExpertId(3), GpuId(1), GpuId(0), size}}));
  EXPECT_EQ(off_gpu(mapping.transfers), Bytes(200));
}

TEST(SmartMoeTest, NeverRaisesTheMaximumAndKeepsSlots) {
  std::mt19937 random(1);
  SlotTable table = slots({{0, 1, 2}, {3, 4}, {5, 6, 7}, {8, 9}});
  for (int round = 0; round < 100; ++round) {
    TokenLoads loads;
    for (int e = 0; e < 10; ++e) loads.push_back(static_cast<std::int64_t>(random() % 50));
    const SmartMoeMapping mapping = smart_moe_map(table, loads, size);
    EXPECT_LE(std::ranges::max(gpu_loads(mapping.table, loads)),
              std::ranges::max(gpu_loads(table, loads)));
    EXPECT_EQ(smart_moe_map(mapping.table, loads, size).table, mapping.table);
    for (std::size_t gpu = 0; gpu < 4; ++gpu) {
      EXPECT_EQ(mapping.table[gpu].size(), table[gpu].size());
    }
    table = mapping.table;
    EXPECT_EQ(owners_of(table).size(), 10u);
  }
}

TEST(SmartMoeTest, RefusesReplicas) {
  EXPECT_THROW(smart_moe_map(slots({{0, 1}, {1, 0}}), TokenLoads{1, 2}, size), Error);
  EXPECT_THROW(smart_moe_map(slots({{0}, {1}}), TokenLoads{1, 2, 3}, size), Error);
}

}  // namespace
}  // namespace moesim
