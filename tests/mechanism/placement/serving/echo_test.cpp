// SPDX-License-Identifier: Apache-2.0
// ECHO's plans and shares: hand cases, sums and limits on random loads, bytes by brute force.
#include "sim/mechanism/placement/serving/echo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>

#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

using Counts = std::vector<std::int64_t>;

/// [expert][gpu]
std::vector<Counts> parts_of(const llep::Plan& plan, int gpus) {
  std::vector<Counts> parts;
  for (const auto& chunks : plan.chunks) {
    Counts& of_gpu = parts.emplace_back(static_cast<std::size_t>(gpus));
    for (const llep::Chunk& chunk : chunks) of_gpu[chunk.gpu.index()] += chunk.last - chunk.first;
  }
  return parts;
}

// Homes 0 to 3 have 130, 30, 20 and 20: a mean of 50. Home 0 keeps its lighter expert (30) and 20
// of the other, which has 80 to give: the mean or more. GPUs 2 and 3 have room for 30, GPU 1 for
// 20: 30 go to GPU 2, then 30 of 50, again the mean, to GPU 3, and the last 20 to GPU 1.
TEST(Echo, PacksOneExpertIntoTheSpareSlotOfEveryGpu) {
  const Counts counts = {100, 30, 20, 10, 10, 10, 15, 5};
  const llep::Plan plan = echo::plan(counts, 4, 1);
  EXPECT_EQ(parts_of(plan, 4)[0], (Counts{20, 20, 30, 30}));
  EXPECT_EQ(plan.loads, (Counts{50, 50, 50, 50}));
}

// A mean of 70 has buckets 10 wide. Homes 0 and 1 have 80 and 30 too many; GPUs 2 and 3 have room
// for 70 and 40. Expert 0 (80) fills GPU 2; its rest of 10 falls behind the 30 of expert 2.
TEST(Echo, PutsTheRestOfAnExpertIntoItsNewBucket) {
  const Counts counts = {150, 0, 100, 0, 0, 0, 30, 0};
  const auto parts = parts_of(echo::plan(counts, 4, 1), 4);
  EXPECT_EQ(parts[0], (Counts{80, 0, 70, 0}));
  EXPECT_EQ(parts[2], (Counts{0, 70, 0, 30}));
}

// With two slots surpluses 80 and 30 lie next to rooms 70 and 40: all of it finds a place.
TEST(Echo, LaysSurplusesNextToRoomsWithSeveralSlots) {
  const Counts counts = {150, 0, 100, 0, 0, 0, 30, 0};
  const llep::Plan plan = echo::plan(counts, 4, 2);
  EXPECT_EQ(parts_of(plan, 4)[0], (Counts{70, 0, 70, 10}));
  EXPECT_EQ(parts_of(plan, 4)[2], (Counts{0, 70, 0, 30}));
  EXPECT_EQ(plan.loads, (Counts{70, 70, 70, 70}));
}

TEST(Echo, KeepsItsSlotsAndNeverRaisesTheMost) {
  std::mt19937 random(4);
  for (int trial = 0; trial < 400; ++trial) {
    const int gpus = 1 + static_cast<int>(random() % 8), each = 1 + static_cast<int>(random() % 4);
    const int slots = 1 + static_cast<int>(random() % 3);
    Counts counts;
    for (int e = 0; e < gpus * each; ++e) {
      counts.push_back(static_cast<std::int64_t>(random() % (random() % 5 == 0 ? 4000 : 60)));
    }
    const llep::Plan plan = echo::plan(counts, gpus, slots);
    const auto parts = parts_of(plan, gpus);
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    std::int64_t most = 0;
    for (int g = 0; g < gpus; ++g) {
      const auto first = counts.begin() + g * each;
      const std::int64_t native = std::accumulate(first, first + each, std::int64_t{0});
      most = std::max(most, native);
      int clones = 0;
      for (std::size_t e = 0; e < parts.size(); ++e) {
        const bool own = static_cast<int>(e) / each == g;
        clones += !own && parts[e][static_cast<std::size_t>(g)] > 0;
      }
      EXPECT_LE(clones, slots);
      // Receivers end at the mean at most, senders not below it.
      const std::int64_t load = plan.loads[static_cast<std::size_t>(g)];
      if (native > all / gpus) {
        EXPECT_GE(load, all / gpus);
      } else {
        EXPECT_LE(load, all / gpus);
      }
    }
    EXPECT_LE(std::ranges::max(plan.loads), most);
    EXPECT_EQ(std::accumulate(plan.loads.begin(), plan.loads.end(), std::int64_t{0}), all);
  }
  EXPECT_THROW(echo::plan(Counts{1, 2, 3}, 2, 1), Error);
}

// Expert 0 has 6, 3, 2 and 1 token-slots of the four ranks; a clone on GPU 2 takes 5: parts of
// 2.5, 1.25, 0.83 and 0.42, rounded down 2, 1, 0 and 0, and 2 more of rank 0.
TEST(Echo, TakesItsPartOfEveryRankAndTheRestOfTheFirst) {
  llep::Plan plan;
  plan.chunks = {{{GpuId(0), 0, 7}, {GpuId(2), 7, 12}}, {}, {}, {}};
  plan.loads = {7, 0, 5, 0};
  plan.transfers = {{ExpertId(0), GpuId(0), GpuId(2)}};
  LoadMatrix loads(4, 4);
  const Counts held = {6, 3, 2, 1};
  for (int r = 0; r < 4; ++r) loads.at(GpuId(r), ExpertId(0)) = held[static_cast<std::size_t>(r)];
  const auto shares = echo::shares(plan, loads);
  const SlotId home(0), clone(3);  // GPU 2 has expert 2, then the clone
  EXPECT_EQ(shares[0][0], (Shares{{clone, 4}, {home, 2}}));
  EXPECT_EQ(shares[1][0], (Shares{{clone, 1}, {home, 2}}));
  EXPECT_EQ(shares[2][0], (Shares{{home, 2}}));
  EXPECT_EQ(shares[3][0], (Shares{{home, 1}}));
}

// Homes 0 and 3 have 30 too many, GPUs 1 and 2 room for 30.
TEST(EchoByHosts, KeepsClonesOnTheHostOfTheirHome) {
  const Counts counts = {80, 50, 35, 35, 35, 35, 50, 80};
  const std::array two_hosts = {0, 0, 1, 1}, crossed = {0, 1, 0, 1};
  const auto near = parts_of(echo::plan_by_hosts(counts, two_hosts, 1, 3), 4);
  EXPECT_EQ(near[0], (Counts{50, 30, 0, 0}));
  EXPECT_EQ(near[7], (Counts{0, 0, 30, 50}));
  const auto far = parts_of(echo::plan_by_hosts(counts, crossed, 1, 3), 4);
  EXPECT_EQ(far[0], (Counts{50, 0, 30, 0}));
  EXPECT_EQ(far[7], (Counts{0, 30, 0, 50}));
}

// A mean of 100: home 0 has 60 too many, GPU 1 room for 10, GPU 2 for 50. Half of the bonus of its
// host, 50, is less than the 40 token-slots that GPU 2 takes more: it goes first.
TEST(EchoByHosts, BalancesBeforeItLooksAtHosts) {
  const Counts counts = {160, 0, 90, 0, 50, 0, 100, 0};
  const std::array hosts = {0, 0, 1, 1};
  const auto parts = parts_of(echo::plan_by_hosts(counts, hosts, 1, 3), 4);
  EXPECT_EQ(parts[0], (Counts{100, 10, 50, 0}));
}

TEST(EchoByHosts, KeepsItsSlotsAndNeverRaisesTheMost) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    const int gpus = 1 + static_cast<int>(random() % 8), each = 1 + static_cast<int>(random() % 4);
    const int slots = 1 + static_cast<int>(random() % 3);
    Counts counts;
    std::vector<int> hosts;
    for (int g = 0; g < gpus; ++g) hosts.push_back(g / 2);
    for (int e = 0; e < gpus * each; ++e) {
      counts.push_back(static_cast<std::int64_t>(random() % (random() % 5 == 0 ? 4000 : 60)));
    }
    const llep::Plan plan = echo::plan_by_hosts(counts, hosts, slots, 3);
    const auto parts = parts_of(plan, gpus);
    const std::int64_t all = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const double mean = static_cast<double>(all) / gpus;
    for (std::size_t g = 0; g < hosts.size(); ++g) {
      const auto first = counts.begin() + static_cast<std::ptrdiff_t>(g) * each;
      const auto native =
          static_cast<double>(std::accumulate(first, first + each, std::int64_t{0}));
      const auto load = static_cast<double>(plan.loads[g]);
      EXPECT_LE(load, std::max(native, mean));
      EXPECT_GE(load, std::min(native, mean)) << "it gives what is above";
      std::int64_t clones = 0;
      for (std::size_t e = 0; e < parts.size(); ++e) {
        clones += e / static_cast<std::size_t>(each) != g && parts[e][g] > 0 ? 1 : 0;
      }
      EXPECT_LE(clones, slots);
    }
    EXPECT_EQ(std::accumulate(plan.loads.begin(), plan.loads.end(), std::int64_t{0}), all);
  }
}

TEST(EchoPlacement, FetchesClonesAndReturnsGradients) {
  ServingPlay play("echo", four_gpus, 8, 1, 1, true);
  const LayerDecision d = play.show_counts({4000, 200, 300, 500, 600, 400, 700, 300});
  EXPECT_TRUE(play.reacts() && d.after_gate);
  EXPECT_EQ(served(d, play.loads()), (std::vector<std::int64_t>{1750, 1750, 1750, 1750}));
  const SlotTable table = d.assignment.placement().table();
  for (int g = 0; g < 4; ++g) {
    for (int from = 0; from < 4; ++from) {
      std::int64_t copies = 0;
      for (const ExpertId e : table[static_cast<std::size_t>(g)]) {
        copies += e.value / 2 == from && from != g ? 1 : 0;
      }
      EXPECT_EQ(bytes(d.gather, from, g), copies * expert);
      EXPECT_EQ(bytes(d.reduce, g, from), copies * expert);
    }
  }
  EXPECT_TRUE(d.regather.empty());  // weights stay for the backward pass
}

}  // namespace
}  // namespace moesim
