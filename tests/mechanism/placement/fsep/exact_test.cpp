// SPDX-License-Identifier: Apache-2.0
#include "tests/mechanism/placement/fsep/exact.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/planner.h"
#include "tests/mechanism/placement/fsep/cases.h"

namespace moesim::fsep {
namespace {

CostParameters three_passes() {
  CostParameters p;
  p.activation_checkpointing = false;
  return p;
}

Cost lite_cost(const LoadMatrix& loads, const SlotTable& slots, int g, const CostParameters& p) {
  const Placement placement(loads.experts(), slots);
  return cost(loads, Reach(placement, g), p, Counting::integer);
}

TEST(ExactTest, FreeNetworkBalancesPerfectly) {
  // Both experts everywhere: 10 token-slots over 4 ranks, at least 3 on one.
  CostParameters p = three_passes();
  p.same_node = p.other_node = p.same_rank;
  LoadMatrix loads(4, 2);
  loads.at(GpuId(0), ExpertId(0)) = 7;
  loads.at(GpuId(3), ExpertId(1)) = 3;
  EXPECT_NEAR(exact_plan(loads, {4, 2, 2}, p).cost.computation / p.per_token_slot, 9, 1e-9);
}

TEST(ExactTest, FreeComputationKeepsTokensAtHome) {
  // Rank r mostly wants expert 3 - r: with one slot each, it holds that one.
  CostParameters p = three_passes();
  p.per_token_slot = Seconds(1e-15);
  LoadMatrix loads(4, 4);
  for (int r = 0; r < 4; ++r) {
    for (int e = 0; e < 4; ++e) loads.at(GpuId(r), ExpertId(e)) = e == 3 - r ? 9 : 1;
  }
  EXPECT_EQ(exact_plan(loads, {4, 2, 1}, p).slots, table({{3}, {2}, {1}, {0}}));
}

TEST(ExactTest, RoutesEveryChoiceToAHolder) {
  const LoadMatrix loads = random_loads(4, 4, 2, 1.0, 20);
  const ExactPlan exact = exact_plan(loads, {4, 2, 2}, three_passes());
  LoadMatrix sum(4, 4);
  for (std::size_t d = 0; d < 4; ++d) {
    const auto& held = exact.slots[d];
    EXPECT_EQ(held.size(), 2u);
    EXPECT_TRUE(held[0] < held[1]);
    sum += exact.to_rank[d];
    const auto received = exact.to_rank[d].per_expert();
    for (int e = 0; e < 4; ++e) {
      const bool holds = std::count(held.begin(), held.end(), ExpertId(e)) > 0;
      EXPECT_TRUE(holds || received[static_cast<std::size_t>(e)] == 0);
    }
  }
  EXPECT_EQ(sum, loads);
}

TEST(ExactTest, EqualsAllWaysToRoute) {
  // Both experts on both ranks of two nodes; their choices stay or cross.
  CostParameters p = three_passes();
  p.per_token_slot = Seconds(0.7 * 4 * 8192 / p.other_node.value);
  for (unsigned seed = 0; seed < 8; ++seed) {
    const LoadMatrix t = random_loads(2, 2, seed, 0, 4);
    const std::int64_t own = t.row(GpuId(0))[0] + t.row(GpuId(0))[1];
    const std::int64_t all = own + t.row(GpuId(1))[0] + t.row(GpuId(1))[1];
    double best = 1e9;
    // Only how many go from rank 0 to 1 (x) and back (y) matters.
    for (std::int64_t x = 0; x <= own; ++x) {
      for (std::int64_t y = 0; y <= all - own; ++y) {
        const std::int64_t on_0 = own - x + y;
        const auto most = static_cast<double>(std::max(on_0, all - on_0));
        const double wire = static_cast<double>(x + y) / p.other_node.value +
                            static_cast<double>(all - x - y) / p.same_rank.value;
        best = std::min(best, 4 * 8192 * wire + 3 * most * p.per_token_slot.value);
      }
    }
    EXPECT_NEAR(exact_plan(t, {2, 1, 2}, p).cost.total().value, best, 1e-9 * best);
  }
}

/// All ways to put two different experts of `experts` on each of `ranks`.
std::vector<SlotTable> pairs_everywhere(int experts, int ranks) {
  std::vector<SlotTable> tables = {{}};
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<SlotTable> longer;
    for (const SlotTable& begun : tables) {
      for (int a = 0; a < experts; ++a) {
        for (int b = a + 1; b < experts; ++b) {
          longer.push_back(begun);
          longer.back().push_back({ExpertId(a), ExpertId(b)});
        }
      }
    }
    tables = std::move(longer);
  }
  return tables;
}

bool holds_all(const SlotTable& slots, int experts) {
  std::vector<bool> held(static_cast<std::size_t>(experts));
  for (const auto& rank : slots) {
    for (const ExpertId e : rank) held[e.index()] = true;
  }
  return std::find(held.begin(), held.end(), false) == held.end();
}

TEST(ExactTest, NoPlacementWithLiteRoutingIsCheaper) {
  const CostParameters p = three_passes();
  const std::vector<SlotTable> all = pairs_everywhere(4, 4);
  for (unsigned seed = 0; seed < 3; ++seed) {
    const LoadMatrix loads = random_loads(4, 4, seed, 0.5 * seed, 20);
    const double optimum = exact_plan(loads, {4, 2, 2}, p).cost.total().value;
    double best = 1e9;
    for (const SlotTable& slots : all) {
      if (!holds_all(slots, 4)) continue;
      best = std::min(best, lite_cost(loads, slots, 2, p).total().value);
    }
    EXPECT_GE(best, optimum * (1 - 1e-9));
    EXPECT_LE(best, optimum * 1.5);
  }
}

TEST(ExactTest, ThePlannerIsNoCheaper) {
  const std::vector<SlotGrid> grids = {{2, 2, 2}, {4, 2, 1}, {4, 2, 2}, {4, 4, 2}};
  const CostParameters p = three_passes();
  PlannerOptions options;
  options.cost = p;
  for (const SlotGrid& grid : grids) {
    for (unsigned seed = 0; seed < 2; ++seed) {
      const int experts = grid.slots_per_rank * 2;
      const LoadMatrix loads = random_loads(grid.ranks, experts, seed, seed, 30);
      const double optimum = exact_plan(loads, grid, p).cost.total().value;
      const SlotTable slots = plan(loads, grid, options).choice().placed.slots;
      const double heuristic = lite_cost(loads, slots, grid.ranks_per_node, p).total().value;
      // Where it holds an expert twice, the program may hold another one and route alike.
      EXPECT_GE(heuristic, optimum * (1 - 1e-9));
    }
  }
}

TEST(ExactTest, RefusesOtherShapes) {
  EXPECT_THROW(exact_plan(LoadMatrix(2, 2), {4, 2, 1}, {}), Error);
  EXPECT_THROW(exact_plan(LoadMatrix(4, 2), {4, 2, 3}, {}), Error);
}

}  // namespace
}  // namespace moesim::fsep
