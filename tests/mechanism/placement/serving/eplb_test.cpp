// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/eplb.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"
#include "tests/oracles.h"

namespace moesim {
namespace {

using Loads = std::vector<double>;

TEST(EplbPackTest, GivesTheHeaviestItemToTheLightestPackWithRoom) {
  const Loads weights = {5, 5, 1, 8, 1, 2};
  const eplb::Packing packing = eplb::pack(weights, 2);
  // 8 -> 0; 5, 5 -> 1, 1 (8 against 0 and 5); 2 -> 0 (10), 1 -> 0: full; 1 -> 1.
  EXPECT_EQ(packing.pack, (std::vector<int>{1, 1, 0, 0, 1, 0}));
  EXPECT_EQ(packing.rank, (std::vector<int>{0, 1, 2, 0, 2, 1}));
}

TEST(EplbPackTest, KeepsTheOrderOfOneItemPerPack) {
  EXPECT_EQ(eplb::pack(Loads{1, 3, 2}, 3).pack, (std::vector<int>{0, 1, 2}));
}

TEST(EplbReplicateTest, CopiesTheLargestLoadPerCopyAndTheLowerIdOnTies) {
  const eplb::Replication copies = eplb::replicate(Loads{6, 12, 6}, 6);
  // 12 -> 6, now three sixes: experts 0, then 1 (as 12 / 2), each with the lower id first.
  EXPECT_EQ(copies.expert_in, (std::vector<int>{0, 1, 2, 1, 0, 1}));
  EXPECT_EQ(copies.rank, (std::vector<int>{0, 0, 0, 1, 1, 2}));
  EXPECT_EQ(copies.copies, (std::vector<int>{2, 3, 1}));
}

TEST(EplbReplicateTest, AgreesWithATrialOfEveryExpertPerSlot) {
  Random random(3);
  for (int trial = 0; trial < 50; ++trial) {
    Loads loads(1 + random.below(12));
    for (double& load : loads) load = random.below(6);
    const int slots = static_cast<int>(loads.size() + random.below(12));
    std::vector<int> copies(loads.size(), 1);
    for (int s = static_cast<int>(loads.size()); s < slots; ++s) {
      std::size_t best = 0;
      for (std::size_t e = 1; e < loads.size(); ++e) {
        if (loads[e] / copies[e] > loads[best] / copies[best]) best = e;
      }
      ++copies[best];
    }
    EXPECT_EQ(eplb::replicate(loads, slots).copies, copies);
  }
}

TEST(EplbTest, PutsEveryExpertInASlotAndEachCopyWhereItsListSays) {
  Random random(5);
  for (const eplb::Shape shape : {eplb::Shape{40, 4, 2, 8}, eplb::Shape{36, 4, 3, 12}}) {
    LoadMatrix loads(2, 32);
    for (int e = 0; e < 32; ++e) loads.at(GpuId(e % 2), ExpertId(e)) = random.below(1000);
    const eplb::Layout layout = eplb::rebalance(eplb::loads_of(loads), shape);
    const Placement placement(32, layout.table());  // throws when an expert is missing
    ASSERT_EQ(placement.slots(), shape.slots);
    int copies = 0;
    for (int e = 0; e < 32; ++e) {
      copies += layout.copies(ExpertId(e));
      for (const SlotId slot : layout.copy_of[static_cast<std::size_t>(e)]) {
        EXPECT_EQ(placement.expert_in(slot), ExpertId(e));
      }
    }
    EXPECT_EQ(copies, shape.slots);
  }
}

TEST(EplbTest, RefusesShapesThatDoNotDivide) {
  const Loads loads(12, 1);
  EXPECT_THROW(eplb::rebalance(loads, {.slots = 16, .groups = 5, .nodes = 1, .gpus = 8}), Error);
  EXPECT_THROW(eplb::rebalance(loads, {.slots = 18, .groups = 4, .nodes = 4, .gpus = 6}), Error);
  EXPECT_THROW(eplb::rebalance(loads, {.slots = 17, .groups = 4, .nodes = 2, .gpus = 8}), Error);
  EXPECT_THROW(eplb::rebalance(loads, {.slots = 8, .groups = 4, .nodes = 2, .gpus = 8}), Error);
  EXPECT_THROW(eplb::rebalance(loads, {.slots = 16, .groups = 4, .nodes = 0, .gpus = 8}), Error);
  EXPECT_THROW(eplb::rebalance(loads, {.slots = 16, .groups = 4, .nodes = 2, .gpus = 0}), Error);
  EXPECT_THROW(eplb::rebalance(Loads{}, {.slots = 16, .groups = 4, .nodes = 2, .gpus = 8}), Error);
  EXPECT_THROW(eplb::pack(loads, 5), Error);
}

// The example that EPLB's README prints: two layers of 12 experts, 16 slots on 8 GPUs of 2 nodes.
TEST(EplbTest, PlansTheExampleOfItsReadme) {
  const eplb::Shape shape{.slots = 16, .groups = 4, .nodes = 2, .gpus = 8};
  const auto plan_of = [&](const Loads& loads) {
    std::vector<int> experts;
    for (const ExpertId e : eplb::rebalance(loads, shape).expert_in) experts.push_back(e.value);
    return experts;
  };
  EXPECT_EQ(plan_of({90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86}),
            (std::vector<int>{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  EXPECT_EQ(plan_of({20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27}),
            (std::vector<int>{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
}

void check_oracle(const nlohmann::json& oracle) {
  const auto& input = oracle["input"];
  const auto& expected = oracle["expected"];
  const eplb::Shape shape{input["physical_slots"], input["expert_groups"], input["nodes"],
                          input["gpus"]};
  const std::vector<Loads> layers = input["expert_load_per_layer"];
  ASSERT_FALSE(layers.empty());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const eplb::Layout layout = eplb::rebalance(layers[l], shape);
    std::vector<int> experts;
    for (const ExpertId expert : layout.expert_in) experts.push_back(expert.value);
    std::vector<int> copies;
    std::vector<std::vector<int>> slots;
    std::vector<double> gpu_load(static_cast<std::size_t>(shape.gpus));
    for (std::size_t e = 0; e < layers[l].size(); ++e) {
      copies.push_back(layout.copies(ExpertId(static_cast<int>(e))));
      slots.emplace_back();
      for (const SlotId slot : layout.copy_of[e]) {
        slots.back().push_back(slot.value);
        gpu_load[slot.index() * gpu_load.size() / layout.expert_in.size()] +=
            layers[l][e] / copies.back();
      }
    }
    EXPECT_EQ(experts, expected["physical_to_logical_per_layer"][l].get<std::vector<int>>());
    EXPECT_EQ(copies, expected["replica_count_per_layer"][l].get<std::vector<int>>());
    EXPECT_EQ(slots,
              expected["logical_to_physical_per_layer"][l].get<std::vector<std::vector<int>>>());
    const std::vector<double> recorded = expected["gpu_load_per_layer"][l];
    ASSERT_EQ(recorded.size(), gpu_load.size());
    for (std::size_t g = 0; g < recorded.size(); ++g) EXPECT_NEAR(gpu_load[g], recorded[g], 1e-5);
  }
}

TEST(EplbOracleTest, IsExact) {
  const auto vectors = oracles_of("moesim.oracle.eplb/1");
  if (vectors.empty()) GTEST_SKIP() << "no vectors in " << oracle_folder();
  for (const auto& [file, oracle] : vectors) {
    SCOPED_TRACE(file);
    check_oracle(oracle);
  }
}

}  // namespace
}  // namespace moesim
