// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/trt_llm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/base/error.h"
#include "sim/mechanism/placement/serving/prediction.h"
#include "tests/mechanism/placement/serving/slot_table.h"

namespace moesim {
namespace {

using Loads = std::vector<double>;

TEST(TrtLlmTest, OracleReplicatesAndPlaces) {
  const Loads loads = {100, 60, 50, 40, 30, 20};
  EXPECT_EQ(trt_llm::replicate(loads, 8), (std::vector<int>{2, 2, 1, 1, 1, 1}));
  EXPECT_EQ(trt_llm::place(loads, 4, 2), slot_table_of({{0, 1}, {0, 4}, {2, 5}, {3, 1}}));
}

TEST(TrtLlmTest, OracleGivesTiesToTheHigherExpert) {
  const Loads loads = {60, 60, 30, 20, 10, 10};
  EXPECT_EQ(trt_llm::replicate(loads, 7), (std::vector<int>{1, 2, 1, 1, 1, 1}));
  EXPECT_EQ(trt_llm::place(loads, 4, 2), slot_table_of({{0, 2}, {0, 3}, {1, 4}, {1, 5}}));
}

TEST(TrtLlmTest, SortsEvenWithOneSlotPerRank) {
  EXPECT_EQ(trt_llm::place(Loads{1, 3, 2}, 3, 1), slot_table_of({{1}, {2}, {0}}));
}

TEST(TrtLlmTest, SpreadsCopiesEvenlyWithoutLoads) {
  EXPECT_EQ(trt_llm::replicate(Loads{0, 0, 0}, 8), (std::vector<int>{3, 3, 2}));
  EXPECT_THROW(trt_llm::replicate(Loads{1, 1, 1}, 2), Error);
  EXPECT_THROW(trt_llm::place(Loads{}, 2, 2), Error);
}

TEST(TrtLlmTest, LoadsFade) {
  auto load = prediction::FadingLoad::decayed(0.9);
  LoadMatrix counts(1, 2);
  counts.at(GpuId(0), ExpertId(1)) = 100;
  load.add(counts);
  load.add(counts);
  EXPECT_DOUBLE_EQ(load.load()[0], 0);
  EXPECT_DOUBLE_EQ(load.load()[1], 190);
}

TEST(TrtLlmTest, OracleRotation) {
  EXPECT_EQ(trt_llm::Rotation(58, 1).period(), 59);
  EXPECT_EQ(trt_llm::Rotation(58, 4).sets(), 15);
  EXPECT_EQ(trt_llm::Rotation(58, 4).period(), 15);
  EXPECT_EQ(trt_llm::Rotation(58, 4).layers_at(12), (std::vector<int>{12, 27, 42, 57}));
  EXPECT_EQ(trt_llm::Rotation(58, 4).layers_at(15 + 14), (std::vector<int>{14, 29, 44}));
  EXPECT_TRUE(trt_llm::Rotation(58, 1).layers_at(58).empty());
  EXPECT_THROW(trt_llm::Rotation(58, 0), Error);
}

TEST(TrtLlmTest, RotationUpdatesEveryLayerOncePerPeriod) {
  for (int layers = 1; layers < 20; ++layers) {
    for (int per_iteration = 1; per_iteration < 22; ++per_iteration) {
      const trt_llm::Rotation rotation(layers, per_iteration);
      std::multiset<int> updated;
      for (int i = 0; i < rotation.period(); ++i) {
        const std::vector<int> now = rotation.layers_at(i);
        EXPECT_LE(static_cast<int>(now.size()), per_iteration);
        updated.insert(now.begin(), now.end());
      }
      ASSERT_EQ(static_cast<int>(updated.size()), layers);
      EXPECT_EQ(std::set<int>(updated.begin(), updated.end()).size(), updated.size());
    }
  }
}

TEST(TrtLlmTest, TakesReplicasInTurnAndOneLaterWithEveryBlock) {
  // k = 8: tokens 0-127 are block 0, 128-255 block 1.
  const std::vector<Choice> choices = {{0, 0}, {5, 3}, {127, 7}, {128, 0}, {200, 1}};
  const std::vector<SlotId> replicas = {SlotId(2), SlotId(7)};
  EXPECT_EQ(
      trt_llm::round_robin(choices, 8, replicas, 0),
      (Shares{{SlotId(2), 1}, {SlotId(7), 1}, {SlotId(2), 1}, {SlotId(7), 1}, {SlotId(2), 1}}));
  EXPECT_EQ(trt_llm::round_robin(choices, 8, replicas, 1).front(), (Share{SlotId(7), 1}));
}

}  // namespace
}  // namespace moesim
