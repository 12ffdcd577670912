// SPDX-License-Identifier: Apache-2.0
// FlashLB: its authors' example against EPLB, its limits, and renamed GPUs against a brute force.
#include "sim/mechanism/placement/serving/flash_lb.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/placement/serving/best_pairs.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

using flash_lb::StepLoads;

StepLoads drawn_steps(std::mt19937& random, int steps, int experts) {
  std::vector<double> popular;
  for (int e = 0; e < experts; ++e) popular.push_back(1 + static_cast<double>(random() % 1000));
  StepLoads loads;
  for (int s = 0; s < steps; ++s) {
    auto& step = loads.emplace_back();
    for (const double p : popular)
      step.push_back(p * (0.5 + static_cast<double>(random() % 100) / 100));
  }
  return loads;
}

/// Over the mean load of a GPU.
double peak(const StepLoads& loads, const SlotTable& table) {
  const double all = std::reduce(loads[0].begin(), loads[0].end());
  return flash_lb::imbalance(loads, table) * all / static_cast<double>(table.size());
}

// PR 3042: two slots on each of eight GPUs; EPLB's largest load is 232, FlashLB's 205. Its code at
// 182b75ea, which PR 6477 improved, comes to 200.
TEST(FlashLb, BeatsEplbAsPublished) {
  const StepLoads loads = {{600, 560, 120, 120, 20, 10, 10, 10}};
  const SlotTable eplb = eplb::rebalance(loads[0], {16, 1, 1, 8}).table();
  const auto flash = flash_lb::search(loads, 8, 2);
  ASSERT_TRUE(flash);
  std::fputs(fmt::format("largest load: EPLB {:.1f} (published 232), FlashLB {:.1f} (205)\n",
                         peak(loads, eplb), peak(loads, *flash))
                 .c_str(),
             stdout);
  EXPECT_NEAR(peak(loads, eplb), 232, 0.5);
  EXPECT_NEAR(peak(loads, *flash), 200, 0.5);
}

// What upstream's code at 182b75ea says for drawn loads, run by itself. Left out: seeds for which
// it gives an expert more copies than there are GPUs, or fills more slots of a GPU than there are.
TEST(FlashLb, ReachesTheBalanceOfTheCode) {
  const std::map<std::uint32_t, double> said = {{1, 1.02166}, {2, 1.13303},  {3, 1.16539},
                                                {4, 1.10537}, {6, 1.28745},  {7, 1.14747},
                                                {9, 1.01104}, {10, 1.30083}, {11, 1.06257}};
  for (const auto& [seed, balance] : said) {
    std::uint32_t state = seed * 7919 + 1;
    const auto draw = [&](std::uint32_t below) {
      state = state * 1664525U + 1013904223U;
      return static_cast<int>((state >> 16) % below);
    };
    const int steps = 1 + draw(5), gpus = 2 + draw(7);
    const int experts = gpus * (1 + draw(4));
    StepLoads loads(static_cast<std::size_t>(steps));
    for (auto& step : loads) {
      for (int e = 0; e < experts; ++e) step.push_back(1 + draw(1000));
    }
    const auto table = flash_lb::search(loads, gpus, std::min(experts, experts / gpus + 1));
    ASSERT_TRUE(table);
    EXPECT_NEAR(flash_lb::imbalance(loads, *table), balance, 1e-4) << "seed " << seed;
  }
}

TEST(FlashLb, FillsAllSlotsWithDifferentExperts) {
  std::mt19937 random(4);
  int worse = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const int gpus = 2 + static_cast<int>(random() % 7);
    const int experts = gpus * (1 + static_cast<int>(random() % 4));
    const int slots = std::min(experts, experts / gpus + 1);
    const StepLoads loads = drawn_steps(random, 1 + static_cast<int>(random() % 5), experts);
    const auto table = flash_lb::search(loads, gpus, slots);
    ASSERT_TRUE(table);
    std::set<ExpertId> held;
    for (const auto& gpu : *table) {
      EXPECT_EQ(std::ssize(gpu), slots);
      EXPECT_EQ(std::set(gpu.begin(), gpu.end()).size(), gpu.size());
      held.insert(gpu.begin(), gpu.end());
    }
    EXPECT_EQ(std::ssize(held), experts);
    std::vector<double> sums(static_cast<std::size_t>(experts));
    for (const auto& step : loads) {
      for (std::size_t e = 0; e < sums.size(); ++e) sums[e] += step[e];
    }
    const SlotTable eplb = eplb::rebalance(sums, {gpus * slots, 1, 1, gpus}).table();
    worse += flash_lb::imbalance(loads, *table) > flash_lb::imbalance(loads, eplb) * 1.001 ? 1 : 0;
  }
  EXPECT_LE(worse, 6);
}

// Two experts whose loads alternate balance each other on one GPU, two that rise together do not.
TEST(FlashLb, PutsTogetherWhatBalances) {
  const StepLoads loads = {{90, 90, 10, 10}, {10, 10, 90, 90}, {90, 90, 10, 10}, {10, 10, 90, 90}};
  const auto table = flash_lb::search(loads, 2, 2);
  ASSERT_TRUE(table);
  EXPECT_NEAR(flash_lb::imbalance(loads, *table), 1, 1e-9);
}

TEST(BestPairs, EqualABruteForce) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 200; ++trial) {
    const std::size_t n = 1 + random() % 6;
    std::vector<std::vector<int>> values(n, std::vector<int>(n));
    for (auto& row : values) {
      for (int& value : row) value = static_cast<int>(random() % 9);
    }
    const auto sum = [&](const std::vector<int>& columns) {
      int all = 0;
      for (std::size_t r = 0; r < n; ++r) all += values[r][static_cast<std::size_t>(columns[r])];
      return all;
    };
    std::vector<int> columns(n);
    std::iota(columns.begin(), columns.end(), 0);
    int most = 0;
    do most = std::max(most, sum(columns));
    while (std::ranges::next_permutation(columns).found);
    const auto found = best_pairs(values);
    EXPECT_EQ(sum(found), most);
    EXPECT_EQ(std::set(found.begin(), found.end()).size(), n);
  }
}

TEST(FlashLb, RenamesGpusSoThatExpertsStay) {
  const auto table = [](std::vector<std::vector<int>> experts) {
    SlotTable made;
    for (const auto& gpu : experts) {
      auto& row = made.emplace_back();
      for (const int e : gpu) row.emplace_back(e);
    }
    return made;
  };
  EXPECT_EQ(flash_lb::least_moves(table({{0, 1}, {2, 3}, {4, 5}}), table({{5, 4}, {0, 2}, {3, 1}})),
            table({{0, 2}, {1, 3}, {4, 5}}));
}

// A layer that is balanced as expected stays; a worse one is searched anew.
TEST(FlashLb, ChangesLayersThatGotWorse) {
  flash_lb::Layer layer;
  const StepLoads skewed = {{400, 300, 10, 10, 20, 20, 20, 20}};
  SlotTable slots(4);
  for (int p = 0; p < 8; ++p) slots[static_cast<std::size_t>(p / 2)].emplace_back(p);
  const auto first = layer.rebalance(skewed, slots);
  ASSERT_TRUE(first);
  EXPECT_LT(flash_lb::imbalance(skewed, *first), flash_lb::imbalance(skewed, slots));
  // Nothing better is to be had.
  EXPECT_FALSE(layer.rebalance(skewed, *first));
  const StepLoads even = {std::vector<double>(8, 100)};
  EXPECT_FALSE(layer.rebalance(even, slots));
}

TEST(FlashLb, MovesInThePlacement) {
  ServingPlay play("{kind: vllm, policy: flash-lb, window: 2, lag: 1, slots_per_gpu: 2}", four_gpus,
                   8);
  const std::vector<int> hot = {400, 300, 10, 10, 20, 20, 20, 20};
  EXPECT_TRUE(play.show_counts(hot).migrate.empty());
  EXPECT_TRUE(play.show_counts(hot).migrate.empty());
  EXPECT_FALSE(play.show_counts(hot).migrate.empty());
  try {
    ServingPlay("{kind: vllm, policy: flash-lb, slots_per_gpu: 5}", four_gpus, 4);
    ADD_FAILURE();
  } catch (const Unsuitable& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("'flash-lb' cannot fill 5 slots"));
  }
}

}  // namespace
}  // namespace moesim
