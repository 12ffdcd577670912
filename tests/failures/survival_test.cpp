// SPDX-License-Identifier: Apache-2.0
// Which losses of nodes experts outlive: by hand, by brute force, and as Lazarus places them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>

#include "sim/base/error.h"
#include "sim/failures/checkpoints.h"
#include "sim/mechanism/placement/serving/lazarus.h"

namespace moesim {
namespace {

SlotTable table_of(const std::vector<std::vector<int>>& gpus) {
  SlotTable table;
  for (const auto& gpu : gpus) {
    auto& slots = table.emplace_back();
    for (const int expert : gpu) slots.emplace_back(expert);
  }
  return table;
}

double share(const SlotTable& table, int gpus_per_node, int together) {
  return survival(std::vector<SlotTable>{table}, gpus_per_node, together).share;
}

TEST(Survival, ByHand) {
  const SlotTable pairs = table_of({{0, 1}, {0, 1}, {2, 3}, {2, 3}});
  EXPECT_EQ(share(pairs, 1, 1), 1);
  EXPECT_NEAR(share(pairs, 1, 2), 4.0 / 6, 1e-12);  // not both of a pair
  EXPECT_EQ(share(pairs, 1, 3), 0);
  EXPECT_EQ(share(pairs, 1, 4), 0);
  EXPECT_EQ(share(pairs, 2, 1), 0);  // copies share a node
  const SlotTable ring = table_of({{0, 1}, {1, 2}, {2, 3}, {3, 0}});
  EXPECT_NEAR(share(ring, 1, 2), 2.0 / 6, 1e-12);  // not neighbours
  const std::vector<SlotTable> layers = {pairs, ring};
  EXPECT_NEAR(survival(layers, 1, 2).share, 2.0 / 6, 1e-12);
  EXPECT_THROW(survival(layers, 3, 1), Error);
  EXPECT_THROW(survival(layers, 1, 5), Error);
  EXPECT_THROW(survival({}, 1, 1), Error);
}

/// All sets of nodes, without any short cut.
double by_all_sets(const SlotTable& table, int experts, int together) {
  int sets = 0, good = 0;
  for (unsigned set = 0; set < 1u << table.size(); ++set) {
    if (std::popcount(set) != together) continue;
    std::vector<bool> alive(static_cast<std::size_t>(experts));
    for (std::size_t node = 0; node < table.size(); ++node) {
      if (set >> node & 1) continue;
      for (const ExpertId e : table[node]) alive[e.index()] = true;
    }
    ++sets;
    good += std::ranges::count(alive, true) == experts;
  }
  return static_cast<double>(good) / sets;
}

TEST(Survival, AgreesWithAllSetsOnLazarusPlacements) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 40; ++trial) {
    const lazarus::Shape shape{6 + static_cast<int>(random() % 4), 3};
    const int experts = 6 + static_cast<int>(random() % 4);
    std::vector<double> loads(static_cast<std::size_t>(experts));
    for (double& load : loads) load = 1.0 + static_cast<double>(random() % 50);
    const SlotTable table = lazarus::place(lazarus::replicas(loads, shape, 1), shape);
    for (int together = 1; together < shape.nodes; ++together) {
      EXPECT_NEAR(share(table, 1, together), by_all_sets(table, experts, together), 1e-12);
    }
  }
}

/// With equal replicas in disjoint groups the share has a closed form: no group of r nodes is lost
/// whole, by inclusion and exclusion.
TEST(Survival, DisjointGroupsHaveAClosedForm) {
  const lazarus::Shape shape{8, 4};
  const SlotTable table = lazarus::place(std::vector<int>(16, 2), shape);
  const auto choose = [](int n, int k) {
    double all = 1;
    for (int i = 0; i < k; ++i) all *= static_cast<double>(n - i) / (i + 1);
    return k < 0 || k > n ? 0.0 : all;
  };
  for (int together = 1; together < 8; ++together) {
    double good = 0;
    for (int whole = 0; whole <= 4; ++whole) {
      good += (whole % 2 == 0 ? 1 : -1) * choose(4, whole) *
              choose(8 - 2 * whole, together - 2 * whole);
    }
    EXPECT_NEAR(share(table, 1, together), good / choose(8, together), 1e-12) << together;
  }
}

TEST(Survival, DrawsIfThereAreTooManySets) {
  SlotTable table;
  for (int node = 0; node < 64; ++node) {
    table.push_back({ExpertId(node / 2)});
  }
  const Survival drawn = survival(std::vector<SlotTable>{table}, 1, 8);
  EXPECT_FALSE(drawn.exact);
  double exact = 1;  // every next node misses the partners of those before
  for (int i = 0; i < 8; ++i) exact *= (64.0 - 2 * i) / (64 - i);
  EXPECT_NEAR(drawn.share, exact, 0.01);
  EXPECT_EQ(drawn.share, 0.60914);  // of these draws, with every standard library
}

// 1,961,256 sets of 10 nodes of 24, and 2,496,144 of 11.
TEST(Survival, UpToTwoMillionSetsAreAllTried) {
  SlotTable table;
  for (int node = 0; node < 24; ++node) table.push_back({ExpertId(node / 2)});
  EXPECT_TRUE(survival(std::vector<SlotTable>{table}, 1, 10).exact);
  EXPECT_FALSE(survival(std::vector<SlotTable>{table}, 1, 11).exact);
}

}  // namespace
}  // namespace moesim
