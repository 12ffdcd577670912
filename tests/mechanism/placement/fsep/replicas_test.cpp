// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/replicas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/cases.h"

namespace moesim::fsep {
namespace {

using Counts = std::vector<int>;

TEST(ReplicasTest, EvenNeedsADivisor) {
  EXPECT_EQ(even_replicas(8, {8, 8, 2})->of, Counts(8, 2));
  EXPECT_EQ(even_replicas(3, {2, 2, 2}), std::nullopt);
}

TEST(ReplicasTest, HeaviestPerCopyGetsTheNext) {
  // 5 slots for 3 experts: 90 -> 45 each, then 50 -> 25 each.
  const std::vector<std::int64_t> loads = {50, 90, 10};
  EXPECT_EQ(queue_replicas(loads, {5, 5, 1}).of, (Counts{2, 2, 1}));
}

TEST(ReplicasTest, EqualLoadsGoToTheLowestExpert) {
  const std::vector<std::int64_t> loads = {7, 7, 7};
  EXPECT_EQ(queue_replicas(loads, {5, 5, 1}).of, (Counts{2, 2, 1}));
}

TEST(ReplicasTest, StepsAreOnePerNodeFromThereOn) {
  // Two experts fit every node, so both start with 2 copies; the hot one gets the other 4 slots.
  const std::vector<std::int64_t> loads = {100, 1};
  const Replicas replicas = queue_replicas(loads, {4, 2, 2});
  EXPECT_EQ(replicas.base, 2);
  EXPECT_EQ(replicas.of, (Counts{6, 2}));
}

TEST(ReplicasTest, AStepThatDoesNotFitFreezesTheExpert) {
  // 2 nodes, 6 slots, 4 experts: the hot one takes one slot more and then needs two: one is left.
  const std::vector<std::int64_t> loads = {100, 3, 2, 1};
  const Replicas replicas = queue_replicas(loads, {6, 3, 1});
  EXPECT_EQ(replicas.base, 1);
  EXPECT_EQ(replicas.frozen, (std::vector<ExpertId>{ExpertId(0)}));
  EXPECT_EQ(replicas.of, (Counts{2, 2, 1, 1}));
}

TEST(ReplicasTest, FillTheSlotsInStepsOfNodes) {
  const std::vector<SlotGrid> grids = {{8, 8, 2}, {16, 8, 2}, {12, 4, 3},
                                       {6, 1, 2}, {24, 8, 4}, {10, 5, 1}};
  for (const SlotGrid& grid : grids) {
    for (int experts = 1; experts <= grid.slots(); experts += 3) {
      const auto loads = random_loads(1, experts, 7, 1.5).per_expert();
      const Replicas replicas = queue_replicas(loads, grid);
      EXPECT_EQ(std::accumulate(replicas.of.begin(), replicas.of.end(), 0), grid.slots());
      EXPECT_EQ(replicas.base, grid.nodes() * experts <= grid.slots() ? grid.nodes() : 1);
      for (const int copies : replicas.of) {
        EXPECT_GE(copies, replicas.base);
        EXPECT_TRUE(copies < grid.nodes() || copies % grid.nodes() == 0) << copies;
      }
    }
  }
}

// Why LAER without its even candidate (`no_even`) mostly plans as LAER does: see
// docs/results/fsep.md.
TEST(ReplicasTest, TheQueueIsEvenWhereNothingIsLeftToDeal) {
  const std::vector<std::pair<int, SlotGrid>> full = {
      {32, {32, 8, 1}}, {32, {32, 8, 4}}, {64, {32, 8, 2}}, {16, {32, 8, 2}}, {8, {32, 8, 1}}};
  for (const auto& [experts, grid] : full) {
    for (unsigned seed = 1; seed <= 5; ++seed) {
      const auto loads = random_loads(1, experts, seed, 1.5).per_expert();
      EXPECT_EQ(queue_replicas(loads, grid).of, even_replicas(experts, grid)->of) << experts;
    }
  }
}

TEST(ReplicasTest, TheQueueIsCheaperOnSkewedLoads) {
  for (const auto& [experts, slots] : {std::pair(8, 2), std::pair(16, 4)}) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
      const Decision skewed = plan(random_loads(32, experts, seed, 1), {32, 8, slots});
      EXPECT_EQ(skewed.choice().name, "pq") << experts << " experts, seed " << seed;
    }
    LoadMatrix equal(32, experts);
    for (int s = 0; s < 32; ++s) {
      for (int e = 0; e < experts; ++e) equal.at(GpuId(s), ExpertId(e)) = 100;
    }
    const Decision decision = plan(equal, {32, 8, slots});
    EXPECT_EQ(decision.candidates[0].placed.slots, decision.candidates[1].placed.slots);
  }
}

TEST(ReplicasTest, RefuseWhatDoesNotFit) {
  const std::vector<std::int64_t> loads(5, 1);
  EXPECT_THROW(queue_replicas(loads, {4, 4, 1}), Error);
  EXPECT_THROW(queue_replicas(loads, {6, 4, 1}), Error);
  EXPECT_THROW(even_replicas(5, {2, 2, 2}), Error);
}

}  // namespace
}  // namespace moesim::fsep
