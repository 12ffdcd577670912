// SPDX-License-Identifier: Apache-2.0
// CRAFT's budget against a brute force, its slots, and what the paper says of even and skewed
// layers.
#include "sim/mechanism/placement/serving/craft.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

#include "sim/mechanism/placement/serving/eplb.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

using Gains = std::vector<std::vector<double>>;

double sum_of(const Gains& gains, const std::vector<int>& replicas) {
  double sum = 0;
  for (std::size_t layer = 0; layer < gains.size(); ++layer) {
    sum += gains[layer][static_cast<std::size_t>(replicas[layer])];
  }
  return sum;
}

int total(const std::vector<int>& replicas) {
  return std::accumulate(replicas.begin(), replicas.end(), 0);
}

/// The best sum, and the fewest replicas that give it.
std::pair<double, int> best_share(const Gains& gains, int budget) {
  std::pair<double, int> best{-1, 0};
  std::vector<int> replicas(gains.size());
  const std::function<void(std::size_t, int)> choose = [&](std::size_t layer, int left) {
    if (layer == gains.size()) {
      const double sum = sum_of(gains, replicas);
      const int used = budget - left;
      if (sum > best.first + 1e-9) {
        best = {sum, used};
      } else if (sum > best.first - 1e-9) {
        best.second = std::min(best.second, used);
      }
      return;
    }
    for (int r = 0; r <= left && r < static_cast<int>(gains[layer].size()); ++r) {
      replicas[layer] = r;
      choose(layer + 1, left - r);
    }
  };
  choose(0, budget);
  return best;
}

std::vector<double> random_loads(std::mt19937& random, int experts, int skew) {
  std::vector<double> loads;
  for (int e = 0; e < experts; ++e) loads.push_back(1 + static_cast<double>(random() % 50));
  loads[random() % loads.size()] *= skew;
  return loads;
}

TEST(Craft, SharesItsBudgetAsABruteForceDoes) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    Gains gains(1 + random() % 4);
    for (auto& of_layer : gains) {
      of_layer.resize(1 + random() % 5);
      for (double& gain : of_layer) gain = static_cast<double>(random() % 8) / 8;
    }
    const int budget = static_cast<int>(random() % 9);
    const std::vector<int> replicas = craft::share(gains, budget);
    const auto [sum, used] = best_share(gains, budget);
    EXPECT_NEAR(sum_of(gains, replicas), sum, 1e-9);
    EXPECT_EQ(total(replicas), used);
  }
}

TEST(Craft, IsEplbWhereEveryGpuGetsASlot) {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const auto loads = random_loads(random, 16, 20);
    const SlotTable ours = craft::place(loads, {4, 4});
    const SlotTable theirs = eplb::rebalance(loads, {20, 1, 1, 4}).table();
    std::vector<int> copies(16), expected(16);
    for (std::size_t g = 0; g < 4; ++g) {
      EXPECT_EQ(ours[g].size(), 5u);
      for (const ExpertId e : ours[g]) ++copies[e.index()];
      for (const ExpertId e : theirs[g]) ++expected[e.index()];
    }
    EXPECT_EQ(copies, expected);
  }
}

TEST(Craft, SpendsNoMoreThanItsBudgetAndLeavesNoGpuWithMoreSlots) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    const int gpus = 2 + static_cast<int>(random() % 7);
    const int experts = gpus + static_cast<int>(random() % 20), layers = 5;
    Gains loads;
    for (int l = 0; l < layers; ++l) loads.push_back(random_loads(random, experts, 1 << (2 * l)));
    const int budget = static_cast<int>(random() % 30), most = 2 * gpus;
    std::vector<std::size_t> slots(static_cast<std::size_t>(gpus));
    std::size_t all = 0;
    for (const SlotTable& table : craft::plan(loads, gpus, budget, most)) {
      std::size_t of_layer = 0;
      for (std::size_t g = 0; g < slots.size(); ++g) {
        slots[g] += table[g].size();
        of_layer += table[g].size();
      }
      EXPECT_LE(of_layer, static_cast<std::size_t>(experts + most));
      all += of_layer;
    }
    EXPECT_LE(all, static_cast<std::size_t>(experts * layers + budget));
    const auto [least, largest] = std::ranges::minmax(slots);
    EXPECT_LE(largest - least, 1u);
  }
}

// "Existing replication schemes often over-replicate": with two skewed layers of six, replicas for
// those balance more than as many for every layer.
TEST(Craft, BalancesBetterThanEqualReplicas) {
  std::mt19937 random(4);
  constexpr int gpus = 8, experts = 32, layers = 6, rounds = 20;
  double planned = 0, equal = 0;
  for (int round = 0; round < rounds; ++round) {
    Gains loads;
    for (int l = 0; l < layers; ++l) loads.push_back(random_loads(random, experts, l < 2 ? 40 : 1));
    const auto tables = craft::plan(loads, gpus, 4 * layers, 2 * gpus);
    for (std::size_t l = 0; l < layers; ++l) {
      planned += craft::balancedness(loads[l], tables[l]) / rounds;
      equal += craft::balancedness(loads[l], craft::place(loads[l], {gpus, 4})) / rounds;
    }
  }
  EXPECT_GT(planned, equal + 0.2);
}

TEST(Craft, LayersWithEvenLoadsGetNothing) {
  Gains loads(3, std::vector<double>(8, 5.0));
  loads[1][3] = 100;
  const auto tables = craft::plan(loads, 4, 6, 8);
  const auto slots = [&](std::size_t layer) {
    std::size_t sum = 0;
    for (const auto& gpu : tables[layer]) sum += gpu.size();
    return sum;
  };
  EXPECT_EQ(slots(0), 8u);
  EXPECT_GT(slots(1), 8u);
  EXPECT_EQ(slots(2), 8u);
}

// Four GPUs, two layers: what half a slot per GPU and layer buys goes to the skewed one.
TEST(Craft, PlansAllLayersFromItsProfile) {
  ServingPlay play("{kind: craft, budget: 0.5}", four_gpus, 4, 1, 2);
  const auto skewed = [](const LayerDecision& d) { return d.assignment.placement().slots(); };
  const auto even = std::vector<int>{8, 8, 8, 8}, hot = std::vector<int>{29, 1, 1, 1};
  EXPECT_EQ(skewed(play.show(ids_of(even), 0)), 4);
  EXPECT_EQ(skewed(play.show(ids_of(hot), 1)), 4);
  for (int step = 0; step < 2; ++step) {
    const LayerDecision first = play.show(ids_of(even), 0);
    EXPECT_EQ(skewed(first), 4);
    const LayerDecision second = play.show(ids_of(hot), 1);
    EXPECT_GT(skewed(second), 4);
    EXPECT_LE(skewed(second), 8);
    EXPECT_TRUE(second.migrate.empty());  // loaded with the model
  }
}

}  // namespace
}  // namespace moesim
