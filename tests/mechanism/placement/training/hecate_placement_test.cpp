// SPDX-License-Identifier: Apache-2.0
// Hecate as a placement: copies that hide behind the dense layer, shards dealt out anew.
#include <gtest/gtest.h>

#include <string>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/owners.h"
#include "tests/mechanism/placement/training/training_play.h"

namespace moesim {
namespace {

// 288 bytes an expert at 1 GB/s: 0.5 us hide one transfer, 0.6 us two.
const std::string hecate =
    "kind: hecate, bandwidth: 1 GB/s, dense_time: 0.5 us, throughput: 1 TFLOP/s";

TEST(Hecate, ReplicatesWhatTheDenseLayerHides) {
  TrainingPlay play("{" + hecate + ", free_slots: 1}", toy_model(4, 1));
  EXPECT_TRUE(play.show_loads(skewed_loads).gather.empty());
  const LayerDecision second = play.show_loads(even_loads);
  EXPECT_EQ(experts_of(second), (Experts{{0}, {1, 0}, {2, 0}, {3, 0}}));
  EXPECT_EQ(flows_of(second.gather),
            (std::vector<Flows>{{{{0, 1}, 288}, {{0, 2}, 288}, {{0, 3}, 288}}}));
  EXPECT_TRUE(second.regather.empty());
  EXPECT_EQ(second.assignment.gpu(GpuId(2), ExpertId(0)), GpuId(2));
  EXPECT_FALSE(play.reacts());
}

TEST(Hecate, FetchesAgainWhatItReleased) {
  TrainingPlay play("{" + hecate + ", free_slots: 1, release: true}", toy_model(4, 1));
  play.show_loads(skewed_loads);
  const LayerDecision second = play.show_loads(even_loads);
  EXPECT_FALSE(second.gather.empty());
  EXPECT_EQ(flows_of(second.regather), flows_of(second.gather));
}

TEST(Hecate, DealsShardsOutAnewWithTheirState) {
  TrainingPlay play("{" + hecate + ", free_slots: 0, interval: 2}", toy_model(8, 1));
  // Expert 0 is the top one, whose transfers relieve its GPU; experts 2 and 3 share GPU 1.
  const std::vector<std::vector<int>> loads(4, {20, 4, 10, 10, 1, 1, 1, 1});
  play.show_loads(loads);
  EXPECT_TRUE(play.show_loads(loads).migrate.empty());
  const LayerDecision third = play.show_loads(loads);
  const auto owners =
      owners_of(third.assignment.placement().table());  // throws unless each expert has one slot
  EXPECT_NE(owners[2], owners[3]);
  std::int64_t moved = 0;
  for (std::size_t e = 0; e < 8; ++e) {
    if (owners[e] != GpuId(static_cast<std::int64_t>(e / 2))) moved += 2016;
  }
  EXPECT_GT(moved, 0);
  EXPECT_EQ(third.migrate.at(0).traffic.total(), Bytes(moved));
  EXPECT_TRUE(play.show_loads(loads).migrate.empty());
}

TEST(Hecate, CalibratesByTheGateWhereThatPays) {
  TrainingPlay play("{" + hecate + ", free_slots: 1, calibration_slots: 1}", toy_model(4, 1));
  EXPECT_TRUE(play.reacts());
  // A thousand rows of 16 bytes take longer than an expert of 288.
  const LayerDecision first = play.show_loads(std::vector<std::vector<int>>(4, {1000, 0, 0, 0}));
  EXPECT_TRUE(first.after_gate);
  EXPECT_EQ(experts_of(first), (Experts{{0}, {1, 0}, {2, 0}, {3, 0}}));
}

TEST(Hecate, NeedsSomethingToHideBehind) {
  EXPECT_THROW(TrainingPlay("{kind: hecate, throughput: 1 TFLOP/s}", toy_model(4, 1)), Unsuitable);
}

}  // namespace
}  // namespace moesim
