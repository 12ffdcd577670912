// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/sglang.h"

#include <gtest/gtest.h>

#include <map>

#include "sim/base/error.h"
#include "tests/mechanism/placement/serving/slot_table.h"

namespace moesim {
namespace {

TEST(SglangTest, RebalancesAtIntervalsUnlessGpusAreUsedEvenly) {
  EXPECT_FALSE(sglang::rebalances_after(0, 0.5));
  EXPECT_FALSE(sglang::rebalances_after(999, 0.5));
  EXPECT_TRUE(sglang::rebalances_after(1000, 0.5));
  EXPECT_TRUE(sglang::rebalances_after(2000, 1.0));
  EXPECT_FALSE(sglang::rebalances_after(2000, 0.9, 0.8));
  EXPECT_TRUE(sglang::rebalances_after(2000, 0.8, 0.8));
}

TEST(SglangTest, UtilisationIsMeanOverLargest) {
  EXPECT_DOUBLE_EQ(sglang::utilisation(std::vector<double>{4, 2, 0, 2}), 0.5);
  EXPECT_DOUBLE_EQ(sglang::utilisation(std::vector<double>{0, 0}), 1);
}

/// 8 GPUs of 2 slots: expert 0 on GPUs 0, 1 and 2, expert g + 1 in GPU g's other slot(s).
Placement replicated_slots() {
  SlotTable table(8);
  for (int g = 0; g < 8; ++g) {
    table[static_cast<std::size_t>(g)] = {g < 3 ? ExpertId(0) : ExpertId(g + 1), ExpertId(g + 1)};
  }
  return Placement(9, table);
}

const RankLevel one_node = nodes_of({{0, 1, 2, 3, 4, 5, 6, 7}});

TEST(SglangTest, StaticDispatchTakesOwnCopiesAndDealsTheOthersEvenly) {
  const Placement placement = replicated_slots();
  const auto slots = sglang::static_slots(placement, one_node, 3);
  std::map<SlotId, int> users;
  for (std::size_t rank = 0; rank < 8; ++rank) {
    ++users[slots[rank][0]];
    if (rank < 3) {
      EXPECT_EQ(placement.gpu_of(slots[rank][0]).index(), rank);
    }
    EXPECT_EQ(slots[rank][1], SlotId(1));
  }
  EXPECT_EQ(slots[4][5], SlotId(8));  // both slots of GPU 4 hold expert 5: the lower
  ASSERT_EQ(users.size(), 3u);        // 3 owners and 5 others: 3, 3 and 2
  for (const auto& [slot, ranks] : users) EXPECT_TRUE(ranks == 2 || ranks == 3);
  Assignment(placement, slots);  // throws when a slot holds another expert
}

TEST(SglangTest, StaticDispatchDependsOnSeedAndLayerAlone) {
  const Placement placement = replicated_slots();
  EXPECT_EQ(sglang::static_slots(placement, one_node, 3),
            sglang::static_slots(placement, one_node, 3, 42));
  bool layers_differ = false, seeds_differ = false;
  for (int layer = 0; layer < 8; ++layer) {
    layers_differ |= sglang::static_slots(placement, one_node, layer) !=
                     sglang::static_slots(placement, one_node, 9);
    seeds_differ |= sglang::static_slots(placement, one_node, layer) !=
                    sglang::static_slots(placement, one_node, layer, 7);
  }
  EXPECT_TRUE(layers_differ && seeds_differ);
}

// Upstream since PR 9849: after the own GPU the own node, unless all copies are there.
TEST(SglangTest, CopiesOnTheNodeComeBeforeOthers) {
  const Placement placement = replicated_slots();  // expert 0 on GPUs 0, 1 and 2
  const RankLevel nodes = nodes_of({{0, 4}, {1, 2, 5}, {3, 6, 7}});
  const auto at = [&](int rank) {
    return sglang::candidates(placement, nodes, ExpertId(0), GpuId(rank));
  };
  const std::vector<SlotId> all = {SlotId(0), SlotId(2), SlotId(4)};
  EXPECT_EQ(at(2), std::vector{SlotId(4)});  // its own, although that of GPU 1 is lower
  EXPECT_EQ(at(4), std::vector{SlotId(0)});
  EXPECT_EQ(at(5), std::vector{SlotId(2)});  // the lower of two on the node
  EXPECT_EQ(at(6), all);
  EXPECT_EQ(sglang::candidates(placement, one_node, ExpertId(0), GpuId(5)), all);
  const auto slots = sglang::static_slots(placement, nodes, 0);
  EXPECT_EQ(slots[4][0], SlotId(0));
  EXPECT_EQ(slots[5][0], SlotId(2));
  EXPECT_NE(slots[3][0], slots[6][0]);  // dealt evenly
}

TEST(SglangTest, DynamicDispatchIsUniformAndRepeatable) {
  std::vector<Choice> choices;
  for (int token = 0; token < 30000; ++token) choices.push_back({token, 0});
  const std::vector<SlotId> replicas = {SlotId(1), SlotId(4), SlotId(9)};
  const Shares shares = sglang::dynamic_shares(choices, replicas, GpuId(3), ExpertId(5));
  std::map<SlotId, std::int64_t> counts;
  for (const Share& share : shares) counts[share.slot] += share.count;
  for (const SlotId slot : replicas) EXPECT_NEAR(static_cast<double>(counts[slot]), 10000, 400);
  EXPECT_EQ(shares, sglang::dynamic_shares(choices, replicas, GpuId(3), ExpertId(5)));
  EXPECT_NE(shares, sglang::dynamic_shares(choices, replicas, GpuId(4), ExpertId(5)));
  EXPECT_NE(shares, sglang::dynamic_shares(choices, replicas, GpuId(3), ExpertId(6)));
}

}  // namespace
}  // namespace moesim
