// SPDX-License-Identifier: Apache-2.0
// FlexMoE's steps against their words spelled out, on small cases with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "sim/mechanism/placement/fsep/baselines.h"
#include "sim/mechanism/placement/fsep/flex.h"
#include "sim/mechanism/placement/fsep/spread.h"
#include "tests/error_of.h"
#include "tests/mechanism/placement/fsep/cases.h"
#include "tests/plan/fixtures.h"

namespace moesim::fsep {
namespace {

using Loads = std::vector<std::int64_t>;

Loads rank_loads(const LoadMatrix& loads, const SlotTable& slots, const SlotGrid& grid) {
  const Placement placement(loads.experts(), slots);
  return per_rank(placement, spread(loads, Reach(placement, grid.ranks_per_node)).slots);
}

std::int64_t held(const std::vector<ExpertId>& rank, ExpertId e) {
  return std::ranges::count(rank, e);
}

/// What every node makes of its slots in a step; none when no expert is cold.
std::optional<SlotTable> stepped(const LoadMatrix& loads, SlotTable slots, const SlotGrid& grid) {
  const Loads busy = rank_loads(loads, slots, grid);
  const auto per_copy = [&, before = slots](ExpertId e) {
    std::int64_t copies = 0;
    for (const auto& rank : before) copies += held(rank, e);
    return std::pair(loads.per_expert()[e.index()] / copies, copies);
  };
  ExpertId hot(0);
  std::optional<ExpertId> cold;
  for (int i = 0; i < loads.experts(); ++i) {
    const ExpertId e(i);
    if (per_copy(e).first > per_copy(hot).first) hot = e;
    if (per_copy(e).second == grid.nodes()) continue;
    if (!cold || per_copy(e).first <= per_copy(*cold).first) cold = e;
  }
  if (!cold || *cold == hot) return std::nullopt;
  std::int64_t left = per_copy(*cold).second;
  for (int node = 0; node < grid.nodes() && left > 1; ++node) {
    std::vector<ExpertId>*beside_hot = nullptr, *giver = nullptr;
    std::int64_t least = 0;
    for (int r = node * grid.ranks_per_node; r < (node + 1) * grid.ranks_per_node; ++r) {
      auto& rank = slots[static_cast<std::size_t>(r)];
      const std::int64_t load = busy[static_cast<std::size_t>(r)];
      if (held(rank, *cold) > 0 && (giver == nullptr || load < least)) giver = &rank, least = load;
      const bool both = held(rank, hot) > 0 && held(rank, hot) < std::ssize(rank);
      if (both && beside_hot == nullptr) beside_hot = &rank;
    }
    if (giver == nullptr) continue;
    --left;
    auto& given = *std::ranges::find(*giver, *cold);
    if (beside_hot == nullptr || beside_hot == giver) {
      given = hot;
      continue;
    }
    std::vector<ExpertId> others = *beside_hot;
    std::erase(others, hot);
    std::ranges::sort(others);
    const ExpertId moved =
        *std::ranges::max_element(others, {}, [&](ExpertId e) { return per_copy(e).first; });
    *std::ranges::find(*beside_hot, moved) = hot;
    given = moved;
  }
  return slots;
}

FlexPlan flexed_plainly(const LoadMatrix& loads, SlotTable slots, const SlotGrid& grid, int most) {
  for (int steps = 0; steps < most; ++steps) {
    const auto [low, high] = std::ranges::minmax(rank_loads(loads, slots, grid));
    const auto next = low == high ? std::nullopt : stepped(loads, slots, grid);
    if (!next) return {slots, steps};
    const auto [low_after, high_after] = std::ranges::minmax(rank_loads(loads, *next, grid));
    if (high_after >= high && high_after * low >= high * low_after) return {slots, steps};
    slots = *next;
  }
  return {slots, most};
}

TEST(FlexWords, EveryStepIsAsItsWordsSay) {
  const std::vector<SlotGrid> grids = {{2, 2, 2}, {4, 2, 2}, {4, 4, 3}, {6, 3, 2},
                                       {2, 1, 3}, {3, 1, 2}, {4, 2, 4}};
  int steps = 0;
  for (unsigned seed = 0; seed < 700; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    const SlotGrid& grid = grids[seed % grids.size()];
    const int experts = 1 + draw(grid.slots());
    SlotTable slots = initial_slots(experts, grid);
    for (int swap = 0; swap < 9; ++swap) {  // of slots, in any order within a rank
      auto& a = slots[static_cast<std::size_t>(draw(grid.ranks))];
      auto& b = slots[static_cast<std::size_t>(draw(grid.ranks))];
      std::swap(a[static_cast<std::size_t>(draw(grid.slots_per_rank))],
                b[static_cast<std::size_t>(draw(grid.slots_per_rank))]);
    }
    const LoadMatrix loads =
        random_loads(grid.ranks, experts, seed, 0.3 * draw(4), draw(2) == 0 ? 3 : 40);
    const int most = 1 + draw(4);
    const FlexPlan found = flex_plan(loads, slots, grid, most),
                   expected = flexed_plainly(loads, slots, grid, most);
    ASSERT_EQ(found.slots, expected.slots) << seed;
    ASSERT_EQ(found.steps, expected.steps) << seed;
    steps += found.steps;
  }
  EXPECT_GT(steps, 150);
}

TEST(FsepWords, WhatDoesNotFitIsNamed) {
  const auto grid = [](int ranks, int per_node, int slots, int experts) {
    return error_of([&] { SlotGrid{ranks, per_node, slots}.check(experts); });
  };
  EXPECT_EQ(grid(1, 1, 1, 1), "");
  EXPECT_EQ(grid(4, 2, 2, 8), "");
  const std::string nodes = "hint: the ranks per node must divide the number of ranks\n";
  const std::string room = "hint: every expert needs a slot\n";
  EXPECT_EQ(grid(0, 1, 1, 1), "error: 0 ranks cannot form nodes of 1\n" + nodes);
  EXPECT_EQ(grid(4, 0, 1, 1), "error: 4 ranks cannot form nodes of 0\n" + nodes);
  EXPECT_EQ(grid(4, 3, 1, 1), "error: 4 ranks cannot form nodes of 3\n" + nodes);
  EXPECT_EQ(grid(4, 2, 0, 1), "error: 1 experts do not fit 4 ranks with 0 slots each\n" + room);
  EXPECT_EQ(grid(4, 2, 2, 0), "error: 0 experts do not fit 4 ranks with 2 slots each\n" + room);
  EXPECT_EQ(grid(4, 2, 2, 9), "error: 9 experts do not fit 4 ranks with 2 slots each\n" + room);
  const Placement placement(1, table({{0}, {0}}));
  EXPECT_EQ(error_of([&] { Reach(placement, 0); }),
            "error: 2 ranks cannot form nodes of 0\n" + nodes);
  EXPECT_EQ(error_of([&] { check_shapes(LoadMatrix(2, 2), placement); }),
            "error: loads of 2 ranks and 2 experts, a placement of 2 and 1\n");
  EXPECT_EQ(error_of([&] { check_shapes(LoadMatrix(1, 1), placement); }),
            "error: loads of 1 ranks and 1 experts, a placement of 2 and 1\n");
}

}  // namespace
}  // namespace moesim::fsep
