// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/lazarus.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

/// Whether every expert of 0..experts-1 has a replica outside the failed nodes.
bool survives(const SlotTable& table, int experts, const std::vector<bool>& failed) {
  std::vector<bool> alive(static_cast<std::size_t>(experts));
  for (std::size_t node = 0; node < table.size(); ++node) {
    if (failed[node]) continue;
    for (const ExpertId expert : table[node]) alive[expert.index()] = true;
  }
  return std::ranges::all_of(alive, [](bool one) { return one; });
}

/// Sets of `failures` failed nodes that leave every expert alive.
int survivals(const SlotTable& table, int experts, int failures) {
  int count = 0;
  for (unsigned set = 0; set < 1u << table.size(); ++set) {
    if (std::popcount(set) != failures) continue;
    std::vector<bool> failed(table.size());
    for (std::size_t n = 0; n < table.size(); ++n) failed[n] = set >> n & 1;
    count += survives(table, experts, failed);
  }
  return count;
}

/// The most survivals of any placement of the replicas.
int best_survivals(const std::vector<int>& replicas, const lazarus::Shape& shape, int failures) {
  int best = 0;
  SlotTable table(static_cast<std::size_t>(shape.nodes));
  const auto experts = static_cast<int>(replicas.size());
  const std::function<void(int)> place = [&](int expert) {
    if (expert == experts) {
      best = std::max(best, survivals(table, experts, failures));
      return;
    }
    for (unsigned set = 0; set < 1u << shape.nodes; ++set) {
      if (std::popcount(set) != replicas[static_cast<std::size_t>(expert)]) continue;
      bool fits = true;
      for (std::size_t n = 0; n < table.size(); ++n) {
        if (set >> n & 1) table[n].emplace_back(expert);
        fits &= static_cast<int>(table[n].size()) <= shape.slots_per_node;
      }
      if (fits) place(expert + 1);
      for (std::size_t n = 0; n < table.size(); ++n) {
        if (set >> n & 1) table[n].pop_back();
      }
    }
  };
  place(0);
  return best;
}

TEST(LazarusTest, ReplicatesInProportionToLoad) {
  // 12 slots: shares 6, 3, 2, 1.
  EXPECT_EQ(lazarus::replicas(std::vector<double>{60, 30, 20, 10}, {6, 2}, 1),
            (std::vector<int>{6, 3, 2, 1}));
  // Shares 8.4, 1.8, 1.2, 0.6: at most 6 nodes; 3 slots left for what lacks most.
  EXPECT_EQ(lazarus::replicas(std::vector<double>{70, 15, 10, 5}, {6, 2}, 1),
            (std::vector<int>{6, 3, 2, 1}));
  // At least 2 each: 8.4 -> 6 exceeds nothing, but 6 + 2 + 2 + 2 are the 12 slots.
  EXPECT_EQ(lazarus::replicas(std::vector<double>{70, 15, 10, 5}, {6, 2}, 2),
            (std::vector<int>{6, 2, 2, 2}));
  EXPECT_EQ(lazarus::replicas(std::vector<double>{0, 0, 0}, {4, 2}, 1),
            (std::vector<int>{3, 3, 2}));
  EXPECT_THROW(lazarus::replicas(std::vector<double>{1, 1, 1}, {2, 2}, 2), Error);
  EXPECT_THROW(lazarus::replicas(std::vector<double>{1, 1, 1}, {2, 4}, 3), Error);
}

TEST(LazarusTest, TakesReplicasBackWhereTheyExceedTheShareMost) {
  // Shares 5, 4.5, 0.25, 0.25 of 10: 5, 4, 1, 1 is one too many; only the first two exceed 1.
  EXPECT_EQ(lazarus::replicas(std::vector<double>{20, 18, 1, 1}, {5, 2}, 1),
            (std::vector<int>{4, 4, 1, 1}));
}

TEST(LazarusTest, NestsReplicasOfAGroup) {
  const SlotTable table = lazarus::place(std::vector<int>{1, 3, 2, 2}, {4, 2});
  const auto nodes_of = [&](int expert) {
    unsigned set = 0;
    for (std::size_t n = 0; n < 4; ++n) {
      const bool there = std::count(table[n].begin(), table[n].end(), ExpertId(expert)) > 0;
      set |= (there ? 1u : 0u) << n;
    }
    return set;
  };
  EXPECT_EQ(nodes_of(0) & nodes_of(2), nodes_of(0));  // group of 1 and 2 replicas
  EXPECT_EQ(nodes_of(3) & nodes_of(1), nodes_of(3));  // group of 2 and 3
  EXPECT_EQ(nodes_of(0) & nodes_of(3), 0u);
}

// Groups of four as in the paper, 2 2 2 3 and 3 4, would leave no node for a third replica.
TEST(LazarusTest, GroupsEndWhereLaterReplicasNeedNodes) {
  const SlotTable table = lazarus::place(std::vector<int>{3, 2, 4, 2, 3, 2}, {4, 4});
  EXPECT_EQ(survivals(table, 6, 2), 4);
  EXPECT_EQ(survivals(table, 6, 1), 4);
}

/// Replica counts that fill all slots: drawn, one expert or few more popular than the others.
std::vector<int> drawn_replicas(Random& random, int experts, const lazarus::Shape& shape) {
  const int slots = shape.nodes * shape.slots_per_node;
  std::vector<double> loads;
  for (int e = 0; e < experts; ++e) loads.push_back(std::pow(random.uniform(), 3.0) + 1e-3);
  return lazarus::replicas(loads, shape, 2 * experts <= slots && random.below(2) == 0 ? 2 : 1);
}

TEST(LazarusTest, NoPlacementOfDrawnReplicasSurvivesMoreFailures) {
  Random random(11);
  int compared = 0;
  for (int trial = 0; trial < 150; ++trial) {
    const lazarus::Shape shape{2 + static_cast<int>(random.below(3)),
                               1 + static_cast<int>(random.below(3))};
    const int experts = 1 + static_cast<int>(random.below(static_cast<std::uint32_t>(
                                std::min(5, shape.nodes * shape.slots_per_node))));
    const std::vector<int> replicas = drawn_replicas(random, experts, shape);
    const SlotTable table = lazarus::place(replicas, shape);
    for (int failures = 1; failures < shape.nodes; ++failures) {
      EXPECT_EQ(survivals(table, experts, failures), best_survivals(replicas, shape, failures))
          << testing::PrintToString(replicas) << " in " << shape.nodes << " x "
          << shape.slots_per_node << ", failures " << failures;
      ++compared;
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(LazarusTest, NoPlacementOfEqualReplicasSurvivesMoreFailures) {
  for (const auto& [replicas, shape] :
       {std::pair{std::vector<int>{2, 2, 2, 2}, lazarus::Shape{4, 2}},
        std::pair{std::vector<int>{3, 3, 3}, lazarus::Shape{3, 3}},
        std::pair{std::vector<int>{3, 3, 1, 1}, lazarus::Shape{4, 2}},
        std::pair{std::vector<int>{2, 2, 1, 1, 2, 2}, lazarus::Shape{5, 2}}}) {
    const SlotTable table = lazarus::place(replicas, shape);
    for (int failures = 1; failures < shape.nodes; ++failures) {
      EXPECT_EQ(survivals(table, static_cast<int>(replicas.size()), failures),
                best_survivals(replicas, shape, failures))
          << replicas[0] << replicas[1] << replicas[2] << ", failures " << failures;
    }
  }
}

TEST(LazarusTest, PlacesEveryReplicaOnItsOwnNode) {
  Random random(8);
  for (int trial = 0; trial < 300; ++trial) {
    const lazarus::Shape shape{1 + static_cast<int>(random.below(8)),
                               1 + static_cast<int>(random.below(4))};
    const int experts = 1 + static_cast<int>(random.below(
                                static_cast<std::uint32_t>(shape.nodes * shape.slots_per_node)));
    std::vector<double> loads(static_cast<std::size_t>(experts));
    for (double& load : loads) load = random.below(100) * random.uniform();
    const std::vector<int> replicas = lazarus::replicas(loads, shape, 1);
    EXPECT_EQ(std::accumulate(replicas.begin(), replicas.end(), 0),
              std::min(shape.nodes * shape.slots_per_node, experts * shape.nodes));
    std::vector<int> placed(loads.size());
    for (std::vector<ExpertId> node : lazarus::place(replicas, shape)) {
      EXPECT_LE(static_cast<int>(node.size()), shape.slots_per_node);
      std::sort(node.begin(), node.end());
      EXPECT_EQ(std::adjacent_find(node.begin(), node.end()), node.end());
      for (const ExpertId expert : node) ++placed[expert.index()];
    }
    EXPECT_EQ(placed, replicas);
  }
  EXPECT_THROW(lazarus::place(std::vector<int>{3, 3}, {2, 3}), Error);
  EXPECT_THROW(lazarus::place(std::vector<int>{2, 2, 2}, {2, 2}), Error);
}

TEST(LazarusTest, ReplicasServeEqualPartsOwnChoicesFirst) {
  // Expert 0 on all of 3 nodes: 30 choices, 10 per replica; rank 0 has 20, rank 1 has 7, rank 2 3.
  const Placement placement(2, {{ExpertId(0), ExpertId(1)}, {ExpertId(0)}, {ExpertId(0)}});
  LoadMatrix loads(3, 2);
  loads.at(GpuId(0), ExpertId(0)) = 20;
  loads.at(GpuId(1), ExpertId(0)) = 7;
  loads.at(GpuId(2), ExpertId(0)) = 3;
  loads.at(GpuId(2), ExpertId(1)) = 5;
  const auto shares = lazarus::shares(placement, loads);
  EXPECT_EQ(shares[0][0], (Shares{{SlotId(0), 10}, {SlotId(2), 3}, {SlotId(3), 7}}));
  EXPECT_EQ(shares[1][0], (Shares{{SlotId(2), 7}}));
  EXPECT_EQ(shares[2][0], (Shares{{SlotId(3), 3}}));
  EXPECT_EQ(shares[2][1], (Shares{{SlotId(1), 5}}));
  EXPECT_EQ(shares[0][1], (Shares{{SlotId(1), 1}}));
}

TEST(LazarusTest, EveryReplicaServesItsOwnRankFirst) {
  // 10 of 30 choices per replica; ranks 0 and 2 have 5 each, rank 1 20.
  const Placement placement(1, {{ExpertId(0)}, {ExpertId(0)}, {ExpertId(0)}});
  LoadMatrix loads(3, 1);
  loads.at(GpuId(0), ExpertId(0)) = 5;
  loads.at(GpuId(1), ExpertId(0)) = 20;
  loads.at(GpuId(2), ExpertId(0)) = 5;
  const auto shares = lazarus::shares(placement, loads);
  EXPECT_EQ(shares[0][0], (Shares{{SlotId(0), 5}}));
  EXPECT_EQ(shares[1][0], (Shares{{SlotId(1), 10}, {SlotId(0), 5}, {SlotId(2), 5}}));
  EXPECT_EQ(shares[2][0], (Shares{{SlotId(2), 5}}));
}

TEST(LazarusTest, SharesAreEvenWithinOneForAnyLoads) {
  Random random(12);
  for (int trial = 0; trial < 50; ++trial) {
    const Placement placement(
        6, lazarus::place(std::vector<int>{5, 4, 3, 2, 1, 1}, lazarus::Shape{8, 2}));
    LoadMatrix loads(8, 6);
    for (int s = 0; s < 8; ++s) {
      for (int e = 0; e < 6; ++e) loads.at(GpuId(s), ExpertId(e)) = random.below(50);
    }
    const Assignment assignment(placement, lazarus::shares(placement, loads));
    std::vector<std::int64_t> slots(static_cast<std::size_t>(placement.slots()));
    for (int s = 0; s < 8; ++s) {
      for (int e = 0; e < 6; ++e) {
        add_choices(assignment, GpuId(s), ExpertId(e), loads.at(GpuId(s), ExpertId(e)), slots);
      }
    }
    for (int e = 0; e < 6; ++e) {
      const auto total = loads.per_expert()[static_cast<std::size_t>(e)];
      const auto& copies = placement.slots_of(ExpertId(e));
      const auto each = total / static_cast<std::int64_t>(copies.size());
      for (const SlotId slot : copies) {
        EXPECT_GE(slots[slot.index()], each);
        EXPECT_LE(slots[slot.index()], each + 1);
      }
    }
  }
}

}  // namespace
}  // namespace moesim
