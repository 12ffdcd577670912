// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/training/hecate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.h"
#include "tests/mechanism/placement/training/routed_layer.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using TokenLoads = std::vector<std::int64_t>;

/// Two nodes of two GPUs, an expert of 1000 bytes each second.
HecateLimits limits(double dense, std::vector<int> free_slots) {
  return {Seconds(dense), BytesPerSecond(1000), Bytes(1000), Bytes(500), std::move(free_slots), 2};
}

const SlotTable shards = slots({{0, 1}, {2, 3}, {4, 5}, {6, 7}});

TEST(HecateReplicateTest, HidesWhatTheDenseLayerTakes) {
  EXPECT_EQ(hidden_experts(limits(2.9, {}), 8), 2);
  EXPECT_EQ(hidden_experts(limits(0.5, {}), 8), 0);
  EXPECT_EQ(hidden_experts(limits(1e30, {}), 8), 8);
}

TEST(HecateReplicateTest, TopExpertsEverywhereWhereTheyFit) {
  const TokenLoads loads = {1, 5, 1, 1, 9, 1, 1, 1};
  const Replication plan = hecate_replicate(shards, loads, limits(2, {2, 2, 3, 2}));
  EXPECT_EQ(plan.table, slots({{0, 1, 4}, {2, 3, 4, 1}, {4, 5, 1}, {6, 7, 4, 1}}));
  EXPECT_EQ(off_gpu(plan.gather), Bytes(6000));
  EXPECT_EQ(off_gpu(plan.reduce), Bytes(3000));
  EXPECT_EQ(plan.gather[0].from, GpuId(2));
  EXPECT_EQ(plan.reduce[0].to, GpuId(2));
}

TEST(HecateReplicateTest, SharesScarceSlotsByLoad) {
  // Loads per copy 40, 20, 10, 2: expert 0 goes to GPU 2 of the other node, then (20 each) to
  // GPU 1, expert 2 (20) to GPU 3. Expert 0 (13.3) would be next, but only GPU 0 has a slot left,
  // and owns it: expert 2 (10, as expert 4) takes that.
  const TokenLoads loads = {40, 2, 20, 0, 10, 0, 0, 1};
  const Replication plan = hecate_replicate(shards, loads, limits(4, {1, 1, 1, 1}));
  EXPECT_EQ(plan.table, slots({{0, 1, 2}, {2, 3, 0}, {4, 5, 0}, {6, 7, 2}}));
  EXPECT_EQ(plan.gather[0].to, GpuId(2));
}

TEST(HecateReplicateTest, NodesWithMoreFreeSlotsComeFirst) {
  const SlotTable six = slots({{0}, {1}, {2}, {3}, {4}, {5}});
  const Replication plan =
      hecate_replicate(six, TokenLoads{9, 8, 0, 0, 0, 0}, limits(3, {0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(plan.gather[0].to, GpuId(4));
}

TEST(HecateReplicateTest, GpusWithMoreFreeSlotsComeFirst) {
  const SlotTable four = slots({{0}, {1}, {2}, {3}});
  const Replication plan = hecate_replicate(four, TokenLoads{9, 8, 0, 0}, limits(3, {0, 0, 1, 2}));
  EXPECT_EQ(plan.gather[0].to, GpuId(3));
}

TEST(HecateReplicateTest, SlotsBeyondTheTopChangeNothing) {
  const TokenLoads loads = {1, 0, 0, 0, 9, 0, 0, 0};
  const Replication plan = hecate_replicate(shards, loads, limits(3, {5, 6, 7, 8}));
  EXPECT_EQ(plan.gather.size(), 9u);  // experts 4, 0 and the idle 1 on all others
}

TEST(HecateReplicateTest, NoSlotsNoLoadsOrNoTimeReplicateNothing) {
  const TokenLoads loads = {4, 3, 2, 1, 1, 1, 1, 1};
  EXPECT_EQ(hecate_replicate(shards, loads, limits(3, {0, 0, 0, 0})).table, shards);
  EXPECT_EQ(hecate_replicate(shards, loads, limits(0, {9, 9, 9, 9})).table, shards);
  EXPECT_EQ(hecate_replicate(shards, TokenLoads(8), limits(3, {1, 1, 1, 1})).table, shards);
}

TEST(HecateReplicateTest, KeepsItsInvariants) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    TokenLoads loads;
    for (int e = 0; e < 8; ++e) loads.push_back(static_cast<std::int64_t>(random() % 100));
    std::vector<int> free_slots;
    for (int g = 0; g < 4; ++g) free_slots.push_back(static_cast<int>(random() % 4));
    const int top = static_cast<int>(random() % 6);
    const Replication plan = hecate_replicate(shards, loads, limits(top, free_slots));
    const auto order = heaviest_first(loads);
    for (std::size_t g = 0; g < 4; ++g) {
      EXPECT_LE(plan.table[g].size(), 2 + static_cast<std::size_t>(free_slots[g]));
      EXPECT_EQ(std::set(plan.table[g].begin(), plan.table[g].end()).size(), plan.table[g].size());
    }
    for (const ExpertTransfer& t : plan.gather) {
      EXPECT_LT(std::find(order.begin(), order.end(), t.expert) - order.begin(), top);
    }
  }
}

TEST(HecateAssignmentTest, OwnThenNodeThenAll) {
  const Assignment assignment = hecate_assignment(slots({{0, 1}, {0}, {1}, {2, 1}}), 3, 2);
  const auto gpus = [&](int source, int expert) {
    std::vector<int> at;
    for (const Share& share : assignment.shares(GpuId(source), ExpertId(expert))) {
      at.push_back(assignment.placement().gpu_of(share.slot).value);
      EXPECT_EQ(share.count, 1);
    }
    return at;
  };
  EXPECT_THAT(gpus(1, 0), ElementsAre(1));     // its own
  EXPECT_THAT(gpus(1, 1), ElementsAre(0));     // its node's
  EXPECT_THAT(gpus(2, 0), ElementsAre(0, 1));  // another node's
  EXPECT_THAT(gpus(3, 1), ElementsAre(3));
  EXPECT_THAT(gpus(0, 2), ElementsAre(3));
}

TEST(HecateLatencyTest, CountsTheBusiestReceiverAndTheLargestLoad) {
  const HecateCosts costs{Bytes(10), BytesPerSecond(10), Seconds(1)};
  const LoadMatrix loads = loads_of({{6, 0}, {5, 3}});
  EXPECT_DOUBLE_EQ(hecate_latency(slots({{0}, {1}}), loads, 2, costs).value, 4 * 5 + 3 * 11);
  EXPECT_DOUBLE_EQ(hecate_latency(slots({{0}, {1, 0}}), loads, 2, costs).value, 3 * 8);
}

TEST(HecateCalibrateTest, AdoptsWhatPaysForItsTransfer) {
  // Latency 20 + 33 before, 24 after, and a second for the transfer.
  const SlotTable two = slots({{0}, {1}});
  const LoadMatrix loads = loads_of({{6, 0}, {5, 3}});
  const HecateCosts costs{Bytes(10), BytesPerSecond(10), Seconds(1)};
  HecateLimits spare = limits(1, {1, 1});
  const auto better = hecate_calibrate(two, two, loads, spare, costs);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->table, slots({{0}, {1, 0}}));
  EXPECT_EQ(better->gather,
            (std::vector<ExpertTransfer>{{ExpertId(0), GpuId(0), GpuId(1), Bytes(1000)}}));
  spare.bandwidth = BytesPerSecond(1000. / 30);  // 30 s exposed
  spare.dense = Seconds(30);
  EXPECT_FALSE(hecate_calibrate(two, two, loads, spare, costs));
  spare.bandwidth = BytesPerSecond(1000. / 28);
  EXPECT_TRUE(hecate_calibrate(two, two, loads, spare, costs));
}

TEST(HecateCalibrateTest, KeepsThePlanOnATie) {
  const SlotTable two = slots({{0}, {1}});
  const LoadMatrix loads = loads_of({{6, 0}, {5, 3}});
  HecateLimits spare = limits(29, {1, 1});
  spare.parameters = Bytes(29);  // 29 s: 24 + 29 is the 53 of before
  spare.bandwidth = BytesPerSecond(1);
  EXPECT_FALSE(
      hecate_calibrate(two, two, loads, spare, {Bytes(10), BytesPerSecond(10), Seconds(1)}));
}

TEST(HecateCalibrateTest, AddsToWhatWasPlanned) {
  const SlotTable two = slots({{0}, {1}});
  const SlotTable planned = slots({{0, 1}, {1}});
  const LoadMatrix loads = loads_of({{6, 0}, {5, 3}});
  const HecateCosts costs{Bytes(10), BytesPerSecond(10), Seconds(1)};
  const auto better = hecate_calibrate(two, planned, loads, limits(1, {0, 1}), costs);
  ASSERT_TRUE(better);
  EXPECT_EQ(better->table, slots({{0, 1}, {1, 0}}));
  EXPECT_EQ(better->gather.size(), 1u);
}

TEST(HecateShardsTest, BalancesTheRestByLayerAndFillsWithTheTop) {
  // Top 1 of each layer: experts 0 and 3. Layer 1's rest is heavier and goes first.
  const auto tables = hecate_shards({{9, 2, 1, 1}, {5, 4, 3, 20}}, 1, 4, 2);
  // Layer 1: 5 to GPU 0, 4 to node 1's GPU 2; node 1 has 4 < 5: 3 to GPU 3. Layer 0: all nodes
  // at 0; node 1 has fewer free slots (2 of 4), its GPU 2 has as many as 3: 2 to GPU 2. 1 to node
  // 0, GPU 0, which has fewer free; 1 to node 0 (load 1), GPU 1. The top ones fill GPUs 1 and 3.
  EXPECT_EQ(tables[1], slots({{0}, {}, {1}, {2, 3}}));
  EXPECT_EQ(tables[0], slots({{2}, {3, 0}, {1}, {}}));
}

TEST(HecateShardsTest, FewerFreeSlotsBreakTiesOfGpus) {
  // 5 to GPU 0, 4 and 3 to GPU 1; then GPU 1 has one slot left and GPU 0 two.
  const auto tables = hecate_shards({{5, 4, 3}, {1, 1, 1}}, 0, 2, 2);
  EXPECT_EQ(tables[0], slots({{0}, {1, 2}}));
  EXPECT_EQ(tables[1], slots({{1, 2}, {0}}));
}

TEST(HecateShardsTest, OwnsEveryExpertOnceInEvenMemory) {
  std::mt19937 random(9);
  for (int round = 0; round < 50; ++round) {
    std::vector<TokenLoads> loads(3, TokenLoads(10));
    for (auto& layer : loads) {
      for (auto& n : layer) n = static_cast<std::int64_t>(random() % 100);
    }
    const auto tables = hecate_shards(loads, static_cast<int>(random() % 12), 4, 2);
    std::vector<std::size_t> held(4);
    for (const SlotTable& table : tables) {
      EXPECT_EQ(owners_of(table).size(), 10u);
      for (std::size_t g = 0; g < 4; ++g) held[g] += table[g].size();
    }
    EXPECT_THAT(held, ElementsAre(8, 8, 7, 7));  // 30 experts
  }
}

TEST(HecateShardsTest, MovesWhatChangesOwner) {
  EXPECT_EQ(reshard_transfers(slots({{0, 1}, {2}}), slots({{2, 1}, {0}}), Bytes(7)),
            (std::vector<ExpertTransfer>{{ExpertId(0), GpuId(0), GpuId(1), Bytes(7)},
                                         {ExpertId(2), GpuId(1), GpuId(0), Bytes(7)}}));
}

TEST(HecateTest, RefusesWhatDoesNotFit) {
  EXPECT_THROW(hecate_replicate(shards, TokenLoads(7), limits(1, {1, 1, 1, 1})), Error);
  EXPECT_THROW(hecate_replicate(shards, TokenLoads(8), limits(1, {1, 1, 1})), Error);
  EXPECT_THROW(hecate_shards({{1, 2}}, 1, 3, 2), Error);
  EXPECT_THROW(hecate_assignment(shards, 8, 3), Error);
  EXPECT_THROW(reshard_transfers(shards, slots({{0}}), Bytes(1)), Error);
}

}  // namespace
}  // namespace moesim
