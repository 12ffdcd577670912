// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/vllm.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/placement/moves.h"
#include "sim/mechanism/placement/planning_options.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

TEST(VllmTest, RebalancesFirstAfterAQuarterOfTheInterval) {
  std::vector<int> when;
  PlanningOptions options;
  options.interval = 3000;
  options.first = vllm::first_rebalance(options.interval);
  for (int pass = 0; pass < 7000; ++pass) {
    if (options.due(pass)) when.push_back(pass);
  }
  EXPECT_EQ(when, (std::vector<int>{750, 3750, 6750}));
}

TEST(VllmTest, KeepsExpertsThatStayInTheirSlot) {
  const auto ids = [](std::vector<int> values) {
    std::vector<ExpertId> all;
    for (const int value : values) all.emplace_back(value);
    return all;
  };
  const SlotTable before = {ids({4, 1, 7, 4})};
  EXPECT_EQ(vllm::keep_slots(before, {ids({9, 4, 1, 8})}), (SlotTable{ids({4, 1, 9, 8})}));
  EXPECT_EQ(vllm::keep_slots(before, {ids({4, 4, 4, 1})}), (SlotTable{ids({4, 1, 4, 4})}));
  EXPECT_THROW(vllm::keep_slots(before, {ids({4, 4})}), Error);
}

TEST(VllmTest, KeepsTheExpertsOfEveryGpu) {
  Random random(4);
  const eplb::Shape shape{40, 4, 2, 8};
  SlotTable table = eplb::rebalance(std::vector<double>(32, 1.0), shape).table();
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> loads(32);
    for (double& load : loads) load = random.below(100);
    const SlotTable plain = eplb::rebalance(loads, shape).table();
    const SlotTable kept = vllm::rebalance(loads, shape, table);
    for (std::size_t g = 0; g < kept.size(); ++g) {
      EXPECT_TRUE(std::is_permutation(kept[g].begin(), kept[g].end(), plain[g].begin()));
      for (std::size_t s = 0; s < kept[g].size(); ++s) {
        const auto number = [&](const std::vector<ExpertId>& gpu) {
          return std::count(gpu.begin(), gpu.end(), table[g][s]);
        };
        if (number(kept[g]) >= number(table[g])) {
          EXPECT_EQ(kept[g][s], table[g][s]);
        }
      }
    }
    EXPECT_EQ(vllm::rebalance(loads, shape, kept), kept) << "a fixed point";
    table = kept;
  }
}

TEST(VllmTest, PlaceRuleFollowsTheRankOrderOfChoices) {
  for (std::int64_t token = 0; token < 5; ++token) {
    for (int position = 0; position < 8; ++position) {
      EXPECT_EQ(vllm::replica_of(vllm::Rule::place, {token, position}, 8, 2),
                static_cast<std::size_t>(position % 2));
    }
  }
  EXPECT_EQ(vllm::replica_of(vllm::Rule::place, {5, 1}, 2, 3), 2u);  // 11 mod 3
}

TEST(VllmTest, TokenRuleHashesByKnuth) {
  // 2 x 2654435769 = 5308871538 = 2^32 + 1013904242
  EXPECT_EQ(vllm::replica_of(vllm::Rule::token_hash, {2, 5}, 8, 1000), 242u);
  const std::vector<Choice> choices = {{1, 0}, {3, 1}, {2, 0}};
  const std::vector<SlotId> replicas = {SlotId(3), SlotId(8)};
  EXPECT_EQ(vllm::shares(vllm::Rule::token_hash, choices, 2, replicas),
            (Shares{{SlotId(8), 2}, {SlotId(3), 1}}));
}

}  // namespace
}  // namespace moesim
