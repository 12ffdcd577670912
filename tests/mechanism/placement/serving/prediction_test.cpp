// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/serving/prediction.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/mechanism/placement/serving/eplb.h"
#include "sim/trace/synth/random.h"
#include "tests/mechanism/placement/serving/slot_table.h"

namespace moesim {
namespace {

using Loads = std::vector<double>;

LoadMatrix counts(std::vector<std::int64_t> of) {
  LoadMatrix loads(1, static_cast<int>(of.size()));
  for (std::size_t e = 0; e < of.size(); ++e) {
    loads.at(GpuId(0), ExpertId(static_cast<std::int64_t>(e))) = of[e];
  }
  return loads;
}

TEST(PredictionTest, EmaStartsWithTheFirstStepAndLastForgets) {
  auto ema = prediction::FadingLoad::ema(0.9), last = prediction::FadingLoad::ema(0);
  EXPECT_TRUE(ema.load().empty());
  for (prediction::FadingLoad* predictor : {&ema, &last}) {
    predictor->add(counts({100, 0}));
    predictor->add(counts({0, 50}));
  }
  EXPECT_DOUBLE_EQ(ema.load()[0], 90);
  EXPECT_DOUBLE_EQ(ema.load()[1], 5);
  EXPECT_EQ(last.load(), (Loads{0, 50}));
}

TEST(PredictionTest, CopiesTheHeaviestToTheLeastLoaded) {
  const SlotTable base = slot_table_of({{0, 1}, {2, 3}, {4, 5}});
  // GPUs 110, 20, 10. Three slots: expert 0 (90), again (45), now everywhere; expert 1 (20).
  const auto copies = prediction::replicate(Loads{90, 20, 10, 10, 5, 5}, base, {}, 1);
  // Expert 0 to GPU 2 (65, 20, 55), to GPU 1 (50, 50, 40); only expert 1's own GPU has room left.
  EXPECT_EQ(copies.extra, slot_table_of({{}, {0}, {0}}));
  EXPECT_EQ(copies.dropped, (std::vector<ExpertId>{ExpertId(1)}));
  EXPECT_EQ(copies.gpu_loads, (Loads{50, 50, 40}));
  EXPECT_EQ(prediction::table(base, copies), slot_table_of({{0, 1}, {2, 3, 0}, {4, 5, 0}}));
}

TEST(PredictionTest, DropsACopyThatWouldRaiseTheLargestLoad) {
  const auto copies = prediction::replicate(Loads{100, 100}, slot_table_of({{0}, {1}}), {}, 1);
  EXPECT_EQ(copies.extra, slot_table_of({{}, {}}));
  EXPECT_EQ(copies.dropped, (std::vector<ExpertId>{ExpertId(0), ExpertId(1)}));
}

TEST(PredictionTest, KeepsCopiesThatAreStillWanted) {
  const SlotTable base = slot_table_of({{0}, {1}, {2}, {3}});
  // By itself, the copy of expert 0 would go to GPU 3.
  const auto copies =
      prediction::replicate(Loads{100, 20, 20, 10}, base, slot_table_of({{}, {0}, {3}, {}}), 1);
  EXPECT_EQ(copies.extra[1], (std::vector<ExpertId>{ExpertId(0)}));
}

TEST(PredictionTest, WithoutSlotsIsTheBase) {
  const SlotTable base = slot_table_of({{0, 1}, {2}});
  const auto copies = prediction::replicate(Loads{5, 3, 1}, base, {}, 0);
  EXPECT_EQ(prediction::table(base, copies), base);
  EXPECT_EQ(copies.gpu_loads, (Loads{8, 1}));
  EXPECT_THROW(prediction::replicate(Loads{5, 3, 1, 1}, base, {}, 0), Error);
  EXPECT_THROW(prediction::replicate(Loads{5, 3, 1}, base, SlotTable(3), 0), Error);
}

TEST(PredictionTest, NeverRaisesTheLargestLoadAndReplansNothingAway) {
  Random random(10);
  const SlotTable base = contiguous_placement(24, 6, 6).table();
  for (int trial = 0; trial < 100; ++trial) {
    Loads loads(24);
    for (double& load : loads) load = random.below(50) * (1 + random.below(20));
    const auto before = prediction::replicate(loads, base, {}, 0).gpu_loads;
    const auto copies = prediction::replicate(loads, base, {}, 2);
    EXPECT_LE(*std::max_element(copies.gpu_loads.begin(), copies.gpu_loads.end()),
              *std::max_element(before.begin(), before.end()) + 1e-9);
    const SlotTable table = prediction::table(base, copies);
    const Placement placement(24, table);
    for (std::size_t g = 0; g < 6; ++g) {
      EXPECT_LE(copies.extra[g].size(), 2u);
      std::vector<ExpertId> experts = table[g];
      std::sort(experts.begin(), experts.end());
      EXPECT_EQ(std::adjacent_find(experts.begin(), experts.end()), experts.end());
      double load = 0;
      for (const ExpertId expert : experts) {
        load += loads[expert.index()] / static_cast<double>(placement.slots_of(expert).size());
      }
      EXPECT_NEAR(load, copies.gpu_loads[g], 1e-6);
    }
    const auto again = prediction::replicate(loads, base, copies.extra, 2);
    for (std::size_t g = 0; g < 6; ++g) {
      for (const ExpertId expert : copies.extra[g]) {
        EXPECT_EQ(std::count(again.extra[g].begin(), again.extra[g].end(), expert), 1);
      }
    }
  }
}

TEST(PredictionTest, SharesTakeTheNearestThenTheLeastLoaded) {
  // Expert 0 on GPUs 0, 2, 3; expert 1 on GPU 1. Nodes of 2.
  const Placement placement(2, slot_table_of({{0}, {1}, {0}, {0}}));
  LoadMatrix loads(4, 2);
  for (int s = 0; s < 4; ++s) loads.at(GpuId(s), ExpertId(0)) = 12;
  const Loads gpu_loads = {10, 10, 20, 10};
  const auto shares = prediction::shares(placement, loads, gpu_loads, nodes_of({{0, 1}, {2, 3}}));
  EXPECT_EQ(shares[0][0], (Shares{{SlotId(0), 12}}));
  EXPECT_EQ(shares[1][0], (Shares{{SlotId(0), 12}}));  // same node
  EXPECT_EQ(shares[2][0], (Shares{{SlotId(2), 12}}));  // own
  EXPECT_EQ(shares[2][1], (Shares{{SlotId(1), 1}}));
  const RankLevel single = nodes_of({{0}, {1}, {2}, {3}});
  const auto far = prediction::shares(placement, loads, gpu_loads, single);
  EXPECT_EQ(far[1][0], (Shares{{SlotId(0), 5}, {SlotId(2), 2}, {SlotId(3), 5}}));  // 4.8, 2.4, 4.8
  const auto idle = prediction::shares(placement, loads, Loads{10, 10, 0, 0}, single);
  EXPECT_EQ(idle[1][0], (Shares{{SlotId(2), 6}, {SlotId(3), 6}}));
}

}  // namespace
}  // namespace moesim
