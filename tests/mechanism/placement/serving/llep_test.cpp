// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/llep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

using Counts = std::vector<std::int64_t>;
using ExpertChunks = std::vector<llep::Chunk>;

const Counts skewed = {4000, 200, 300, 500, 600, 400, 700, 300};

TEST(LlepTest, OracleWithoutSlack) {
  const llep::Plan plan = llep::plan(skewed, 4, {1.0, 100});
  EXPECT_EQ(plan.capacity, 1750);
  EXPECT_EQ(plan.chunks[0], (ExpertChunks{{GpuId(0), 0, 1550},
                                          {GpuId(1), 1550, 2500},
                                          {GpuId(2), 2500, 3250},
                                          {GpuId(3), 3250, 4000}}));
  for (std::size_t e = 1; e < 8; ++e) {
    EXPECT_EQ(plan.chunks[e],
              (ExpertChunks{{GpuId(static_cast<std::int64_t>(e) / 2), 0, skewed[e]}}));
  }
  EXPECT_EQ(plan.loads, Counts(4, 1750));
  EXPECT_EQ(plan.transfers, (std::vector<WeightMove>{{ExpertId(0), GpuId(0), GpuId(1)},
                                                     {ExpertId(0), GpuId(0), GpuId(2)},
                                                     {ExpertId(0), GpuId(0), GpuId(3)}}));
}

TEST(LlepTest, OracleWithDefaults) {
  const llep::Plan plan = llep::plan(skewed, 4, {});
  EXPECT_EQ(plan.capacity, 1925);
  EXPECT_EQ(plan.chunks[0],
            (ExpertChunks{{GpuId(0), 0, 1725}, {GpuId(1), 1725, 2850}, {GpuId(2), 2850, 4000}}));
  EXPECT_EQ(plan.chunks[4], (ExpertChunks{{GpuId(2), 0, 375}, {GpuId(3), 375, 600}}));
  EXPECT_EQ(plan.loads, (Counts{1925, 1925, 1925, 1225}));
}

TEST(LlepTest, OracleWithAnOwnerThatKeepsNothing) {
  const llep::Plan plan = llep::plan(Counts{900, 800, 100, 120, 90, 80, 70, 60}, 4, {1.1, 1});
  EXPECT_EQ(plan.capacity, 610);
  EXPECT_EQ(plan.chunks[0], (ExpertChunks{{GpuId(3), 0, 480}, {GpuId(2), 480, 900}}));
  EXPECT_EQ(plan.chunks[1], (ExpertChunks{{GpuId(0), 0, 610}, {GpuId(1), 610, 800}}));
  EXPECT_EQ(plan.loads, (Counts{610, 410, 590, 610}));
}

TEST(LlepTest, SendsWhatFitsNowhereToTheLeastLoaded) {
  // Capacity 500: GPU 0 keeps 500; no other takes 500 of the rest as one chunk worth 2000.
  const llep::Plan plan = llep::plan(Counts{2000, 0}, 2, {0.5, 2000});
  EXPECT_EQ(plan.chunks[0], (ExpertChunks{{GpuId(0), 0, 500}, {GpuId(1), 500, 2000}}));
  EXPECT_TRUE(plan.chunks[1].empty());
}

TEST(LlepTest, CapacityIsOneOrMore) {
  EXPECT_EQ(llep::plan(Counts{1, 0}, 2, {}).capacity, 1);        // of one choice: the total
  EXPECT_EQ(llep::plan(Counts{2, 0}, 2, {0.5, 1}).capacity, 1);  // half of a mean of 1
}

TEST(LlepTest, AppliesFromTheThresholdOn) {
  EXPECT_TRUE(llep::applies(Counts{3, 1}, 2, 1.5));
  EXPECT_FALSE(llep::applies(Counts{3, 1}, 2, 1.51));
  EXPECT_FALSE(llep::applies(Counts{0, 0}, 2, 1));
  EXPECT_THROW(llep::plan(Counts{1, 2, 3}, 2, {}), Error);
}

TEST(LlepTest, DealsOutEveryTokenSlotOnceAndSharesFollowThePlan) {
  Random random(9);
  for (int trial = 0; trial < 60; ++trial) {
    const int gpus = 1 + static_cast<int>(random.below(5));
    LoadMatrix loads(gpus, gpus * 3);
    for (int s = 0; s < gpus; ++s) {
      for (int e = 0; e < gpus * 3; ++e) {
        loads.at(GpuId(s), ExpertId(e)) = random.below(e == 0 ? 4000 : 1 + random.below(300));
      }
    }
    const Counts counts = loads.per_expert();
    const llep::Plan plan =
        llep::plan(counts, gpus, {1.0 + 0.2 * random.uniform(), 1 + random.below(300)});
    const Placement placement(gpus * 3, llep::table(plan));
    const Assignment assignment(placement, llep::shares(plan, loads));
    Counts slots(static_cast<std::size_t>(placement.slots()));
    for (int e = 0; e < gpus * 3; ++e) {
      std::int64_t next = 0;
      for (const llep::Chunk& chunk : plan.chunks[static_cast<std::size_t>(e)]) {
        EXPECT_EQ(chunk.first, next);
        EXPECT_LT(chunk.first, chunk.last);
        next = chunk.last;
      }
      EXPECT_EQ(next, counts[static_cast<std::size_t>(e)]);
      for (int s = 0; s < gpus; ++s) {
        add_choices(assignment, GpuId(s), ExpertId(e), loads.at(GpuId(s), ExpertId(e)), slots);
      }
    }
    Counts gpu_loads(static_cast<std::size_t>(gpus));
    for (int slot = 0; slot < placement.slots(); ++slot) {
      gpu_loads[placement.gpu_of(SlotId(slot)).index()] += slots[static_cast<std::size_t>(slot)];
    }
    EXPECT_EQ(gpu_loads, plan.loads);
  }
}

}  // namespace
}  // namespace moesim
