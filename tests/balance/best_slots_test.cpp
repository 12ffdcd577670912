// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/best_slots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace moesim {
namespace {

/// The least sum of busiest loads over all ways to give every GPU its number of experts.
std::int64_t optimum(const LoadHistory& loads, int experts, int gpus) {
  std::vector<int> gpu_of;
  for (int e = 0; e < experts; ++e) gpu_of.push_back(e * gpus / experts);
  std::int64_t best = -1;
  do {
    SlotTable slots(static_cast<std::size_t>(gpus));
    for (int e = 0; e < experts; ++e) {
      slots[static_cast<std::size_t>(gpu_of[static_cast<std::size_t>(e)])].emplace_back(e);
    }
    const std::int64_t sum = busiest_loads(slots, loads);
    if (best < 0 || sum < best) best = sum;
  } while (std::next_permutation(gpu_of.begin(), gpu_of.end()));
  return best;
}

TEST(BestSlots, OneStepOfFourExperts) {
  // 9 + 1 and 6 + 4 on two GPUs are even.
  const LoadHistory loads = {{9, 6, 4, 1}};
  EXPECT_EQ(busiest_loads(best_slots(loads, 4, 2), loads), 10);
}

TEST(BestSlots, KeepsContiguousPlacementWhereAllIsEven) {
  EXPECT_EQ(best_slots({{5, 5, 5, 5}}, 4, 2).size(), 2u);
  EXPECT_EQ(busiest_loads(best_slots({{5, 5, 5, 5}}, 4, 2), {{5, 5, 5, 5}}), 10);
}

TEST(BestSlots, LiesWithinFivePercentOfTheOptimumAndNeverBelow) {
  std::mt19937 random(7);
  double sum_of_ratios = 0;
  constexpr int trials = 40;
  for (int trial = 0; trial < trials; ++trial) {
    const int gpus = 2 + trial % 3;
    LoadHistory loads(3, std::vector<std::int64_t>(8));
    for (auto& step : loads) {
      for (auto& load : step) load = static_cast<std::int64_t>(random() % 100);
    }
    const auto found = busiest_loads(best_slots(loads, 8, gpus), loads);
    const auto best = optimum(loads, 8, gpus);
    EXPECT_GE(found, best);
    EXPECT_LE(found, busiest_loads(contiguous_placement(8, gpus, gpus).table(), loads));
    sum_of_ratios += static_cast<double>(found) / static_cast<double>(best);
  }
  EXPECT_LT(sum_of_ratios / trials, 1.05);
}

}  // namespace
}  // namespace moesim
