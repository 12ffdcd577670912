// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/best_slots.h"

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

/// The search by its words: heaviest first to the lightest GPU with room, or contiguous unless that
/// is more; then the best exchange of two experts, the lowest of equals, while one helps.
SlotTable searched_plainly(const LoadHistory& loads, int experts, int gpus) {
  SlotTable contiguous = contiguous_placement(experts, gpus, gpus).table();
  std::vector<std::int64_t> sums(static_cast<std::size_t>(experts)), held(contiguous.size());
  for (const auto& step : loads) {
    for (std::size_t e = 0; e < sums.size(); ++e) sums[e] += step[e];
  }
  std::vector<ExpertId> order;
  for (int e = 0; e < experts; ++e) order.emplace_back(e);
  std::stable_sort(order.begin(), order.end(),
                   [&](ExpertId a, ExpertId b) { return sums[a.index()] > sums[b.index()]; });
  SlotTable now(contiguous.size());
  for (const ExpertId e : order) {
    std::vector<std::size_t> open;
    for (std::size_t g = 0; g < now.size(); ++g) {
      if (now[g].size() != contiguous[g].size()) open.push_back(g);
    }
    const std::size_t lightest =
        *std::ranges::min_element(open, {}, [&](auto g) { return held[g]; });
    now[lightest].push_back(e);
    held[lightest] += sums[e.index()];
  }
  if (busiest_loads(contiguous, loads) <= busiest_loads(now, loads)) now = contiguous;
  while (true) {
    SlotTable best = now;
    for (int a = 0; a < experts; ++a) {
      for (int b = a + 1; b < experts; ++b) {
        SlotTable other = now;
        for (auto& slots : other) {
          for (ExpertId& e : slots) {
            e = e == ExpertId(a) ? ExpertId(b) : e == ExpertId(b) ? ExpertId(a) : e;
          }
        }
        if (busiest_loads(other, loads) < busiest_loads(best, loads)) best = other;
      }
    }
    if (best == now) return now;
    now = best;
  }
}

TEST(BestSlots, SearchesAsItsWordsSay) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 300; ++trial) {
    const int experts = 1 + static_cast<int>(random() % 8);
    const int gpus = 1 + static_cast<int>(random() % static_cast<unsigned>(experts));
    LoadHistory loads(1 + random() % 3,
                      std::vector<std::int64_t>(static_cast<std::size_t>(experts)));
    for (auto& step : loads) {
      for (auto& load : step) load = static_cast<std::int64_t>(random() % 5);
    }
    ASSERT_EQ(best_slots(loads, experts, gpus), searched_plainly(loads, experts, gpus)) << trial;
  }
}

TEST(BestSlots, BusiestLoadsOfNothingAreZero) {
  const SlotTable slots = {{ExpertId(0)}, {ExpertId(1)}};
  EXPECT_EQ(busiest_loads(slots, {{0, 0}}), 0);
  EXPECT_EQ(busiest_loads(slots, {}), 0);
  EXPECT_EQ(busiest_loads(slots, {{1, 2}, {4, 3}}), 2 + 4);
}

}  // namespace
}  // namespace moesim
