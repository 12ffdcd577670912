// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/fsep/place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/placement/fsep/replicas.h"
#include "tests/mechanism/placement/fsep/cases.h"

namespace moesim::fsep {
namespace {

using Loads = std::vector<std::int64_t>;

TEST(PlaceTest, CopiesSpreadOverNodesThenToTheLightestRank) {
  // Expert 0 (2 x 50) goes to both nodes; 1 (40) and 2 (30) to the free ranks 1 and 3.
  const Placed placed = place(Loads{100, 40, 30}, std::vector<int>{2, 1, 1}, {4, 2, 1});
  EXPECT_EQ(placed.slots, table({{0}, {1}, {0}, {2}}));
  EXPECT_EQ(placed.fallbacks, 0);
}

TEST(PlaceTest, TwoCopiesMayShareARank) {
  const Placed placed = place(Loads{9, 100}, std::vector<int>{2, 2}, {2, 2, 2});
  EXPECT_EQ(placed.slots, table({{0, 1}, {0, 1}}));
  EXPECT_EQ(place(Loads{90, 2}, std::vector<int>{3, 1}, {2, 1, 2}).slots, table({{0, 0}, {0, 1}}));
}

TEST(PlaceTest, FallsBackWhenEveryNodeWithTheFewestCopiesIsFull) {
  // 50 + 20 + 10 fill node 1 before node 0 has a second expert: node 0 takes both copies of 4, the
  // second although node 1 has none.
  const Placed placed =
      place(Loads{100, 50, 20, 10, 4}, std::vector<int>{1, 1, 1, 1, 2}, {2, 1, 3});
  EXPECT_EQ(placed.slots, table({{0, 4, 4}, {1, 2, 3}}));
  EXPECT_EQ(placed.fallbacks, 1);
}

/// The same rule, copy by copy over all ranks.
Placed plainly(const Loads& loads, const std::vector<int>& copies, const SlotGrid& grid) {
  struct Item {
    double weight;
    int expert;
  };
  std::vector<Item> items;
  for (std::size_t e = 0; e < loads.size(); ++e) {
    for (int c = 0; c < copies[e]; ++c) {
      items.push_back({static_cast<double>(loads[e]) / copies[e], static_cast<int>(e)});
    }
  }
  std::stable_sort(items.begin(), items.end(),
                   [](const Item& a, const Item& b) { return a.weight > b.weight; });
  Placed placed;
  placed.slots.resize(static_cast<std::size_t>(grid.ranks));
  std::vector<double> sums(placed.slots.size());
  for (const Item& item : items) {
    std::vector<int> held(static_cast<std::size_t>(grid.nodes()));
    for (std::size_t r = 0; r < sums.size(); ++r) {
      held[r / static_cast<std::size_t>(grid.ranks_per_node)] += static_cast<int>(
          std::count(placed.slots[r].begin(), placed.slots[r].end(), ExpertId(item.expert)));
    }
    const int fewest = *std::min_element(held.begin(), held.end());
    const auto lightest = [&](bool anywhere) {
      std::size_t best = sums.size();
      for (std::size_t r = 0; r < sums.size(); ++r) {
        const bool full = static_cast<int>(placed.slots[r].size()) == grid.slots_per_rank;
        const int here = held[r / static_cast<std::size_t>(grid.ranks_per_node)];
        if (full || (!anywhere && here != fewest)) continue;
        if (best == sums.size() || sums[r] < sums[best]) best = r;
      }
      return best;
    };
    std::size_t rank = lightest(false);
    if (rank == sums.size()) {
      ++placed.fallbacks;
      rank = lightest(true);
    }
    placed.slots[rank].emplace_back(item.expert);
    sums[rank] += item.weight;
  }
  for (auto& experts : placed.slots) std::sort(experts.begin(), experts.end());
  return placed;
}

TEST(PlaceTest, EqualsTheRuleAppliedPlainly) {
  const std::vector<SlotGrid> grids = {{8, 8, 2},  {16, 8, 2}, {12, 4, 3}, {6, 1, 2},
                                       {24, 8, 4}, {10, 5, 1}, {12, 2, 5}};
  int fallbacks = 0;
  for (const SlotGrid& grid : grids) {
    for (unsigned seed = 0; seed < 12; ++seed) {
      const int experts = 1 + static_cast<int>(seed) * 5 % grid.slots();
      const Loads loads = random_loads(1, experts, seed, 0.3 * seed, 40).per_expert();
      const std::vector<int> copies = queue_replicas(loads, grid).of;
      const Placed fast = place(loads, copies, grid);
      const Placed plain = plainly(loads, copies, grid);
      EXPECT_EQ(fast.slots, plain.slots);
      EXPECT_EQ(fast.fallbacks, plain.fallbacks);
      fallbacks += fast.fallbacks;
    }
  }
  EXPECT_GT(fallbacks, 0);
}

TEST(PlaceTest, RefusesCopiesThatDoNotFillTheSlots) {
  EXPECT_THROW(place(Loads{1, 1}, std::vector<int>{1, 2}, {2, 2, 2}), Error);
  EXPECT_THROW(place(Loads{1, 1}, std::vector<int>{4, 0}, {2, 2, 2}), Error);
  EXPECT_THROW(place(Loads{1, 1, 1}, std::vector<int>{1, 1, 1}, {3, 2, 1}), Error);  // half a node
}

}  // namespace
}  // namespace moesim::fsep
