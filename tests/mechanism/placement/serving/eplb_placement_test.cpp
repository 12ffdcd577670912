// SPDX-License-Identifier: Apache-2.0
// EPLB and LPLB as placements: when they replicate, what that moves, and split batches.
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

TEST(EplbPlacement, ReplicatesAfterTheStepThatShowedTheLoad) {
  ServingPlay play("{kind: eplb, slots_per_gpu: 3}", pair_of_gpus, 4);
  EXPECT_EQ(experts_of(play.show_counts({2, 2, 2, 10})), (Experts{{2, 0, 0}, {3, 1, 1}}));
  const LayerDecision next = play.show_counts({2, 2, 2, 10});
  EXPECT_EQ(experts_of(next), (Experts{{3, 3, 2}, {3, 0, 1}}));
  ASSERT_EQ(next.migrate.size(), 1u);
  EXPECT_EQ(bytes(next.migrate, 0, 1), expert);  // expert 0
  EXPECT_EQ(bytes(next.migrate, 1, 0), expert);  // expert 3
  EXPECT_EQ(next.migrate[0].traffic.total(), Bytes(2 * expert));
  EXPECT_EQ(next.memory[0].weights, Bytes(3 * expert));
  EXPECT_EQ(next.memory[0].resident(), Bytes(3 * expert));
}

TEST(EplbPlacement, WaitsForItsIntervalAndSumsItsWindow) {
  ServingPlay play(
      "{kind: eplb, slots_per_gpu: 3, first: 2, interval: 3, window: 2, planning_time: 1 ms}",
      pair_of_gpus, 4);
  const auto quiet = experts_of(play.show_counts({4, 4, 4, 4}));
  const LayerDecision second = play.show_counts({0, 0, 0, 16});
  EXPECT_EQ(experts_of(second), quiet);
  EXPECT_EQ(second.planning, Seconds(0));
  const LayerDecision third = play.show_counts({4, 4, 4, 4});
  EXPECT_EQ(third.planning, Seconds(1e-3));
  // 4, 4, 4, 20: three copies of expert 3.
  EXPECT_EQ(experts_of(third), (Experts{{3, 3, 2}, {3, 0, 1}}));
  EXPECT_EQ(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(third));
  EXPECT_EQ(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(third));
  EXPECT_NE(experts_of(play.show_counts({16, 0, 0, 0})), experts_of(third));
}

TEST(EplbPlacement, MovesWeightsOfHalfABytePerElement) {
  MoeModel model;
  model.hidden = 8;
  model.expert_ffn = 2;
  model.expert_matrices = 2;
  model.experts = 4;
  model.top_k = 1;
  model.weights = DataType::fp4;
  for (const std::string kind : {"eplb", "llep, least_chunk: 1, alpha: 1"}) {
    Play play("{kind: " + kind + (kind == "eplb" ? ", slots_per_gpu: 3}" : "}"),
              topology_of(pair_of_gpus), model, 2, 1, false);
    play.show(ids_of({2, 2, 2, 10}));
    const LayerDecision next = play.show(ids_of({2, 2, 2, 10}));
    const auto& moved = kind == "eplb" ? next.migrate : next.gather;
    // 32 parameters: 16 bytes, and 2 of scales.
    EXPECT_EQ(bytes(moved, 1, 0), 18) << kind;
  }
}

TEST(EplbPlacement, KeepsCopiesAlikeInTraining) {
  // Experts 0 and 1 have two copies each on one GPU; expert 3 has copies on both after a step.
  ServingPlay weights("{kind: eplb, slots_per_gpu: 3}", pair_of_gpus, 4, 1, 1, true);
  weights.show_counts({2, 2, 2, 10});
  const LayerDecision w = weights.show_counts({2, 2, 2, 10});  // 3 3 2 | 3 0 1
  // Homes: GPU 0 has 0 and 1, GPU 1 has 2 and 3.
  EXPECT_TRUE(w.migrate.empty());
  EXPECT_EQ(bytes(w.gather, 0, 1), 2 * expert);
  EXPECT_EQ(bytes(w.gather, 1, 0), 2 * expert);
  EXPECT_EQ(bytes(w.reduce, 0, 1), 2 * expert);
  EXPECT_EQ(bytes(w.reduce, 1, 0), 2 * expert);
  EXPECT_EQ(w.memory[0].weights, Bytes(3 * expert));
  EXPECT_EQ(w.memory[0].gradients, Bytes(3 * expert));
  EXPECT_EQ(w.memory[0].optimizer, Bytes(2 * 10 * 12));

  ServingPlay state("{kind: eplb, slots_per_gpu: 3, payload: state}", pair_of_gpus, 4, 1, 1, true);
  state.show_counts({2, 2, 2, 10});
  const LayerDecision s = state.show_counts({2, 2, 2, 10});
  EXPECT_EQ(bytes(s.migrate, 1, 0), expert + 10 * 12);
  EXPECT_TRUE(s.gather.empty());
  ASSERT_EQ(s.reduce.size(), 2u);  // only expert 3 is on two GPUs
  EXPECT_EQ(s.reduce[0].traffic.at(GpuId(1), GpuId(0)), Bytes(expert));
  EXPECT_EQ(s.reduce[1].traffic.at(GpuId(0), GpuId(1)), Bytes(expert));
  EXPECT_EQ(s.reduce[0].traffic.total(), Bytes(expert));
  EXPECT_TRUE(s.memory.empty());  // whole experts in all slots
}

TEST(LplbPlacement, SplitsTheVeryBatchButKeepsItsSlots) {
  const std::string text = "{kind: lplb, topology: ring, group: 2}";
  ServingPlay even(text, pair_of_gpus, 4), skewed(text, pair_of_gpus, 4);
  for (ServingPlay* play : {&even, &skewed}) play->show_counts({4, 4, 4, 4});
  const LayerDecision a = even.show_counts({4, 4, 4, 4});
  const LayerDecision b = skewed.show_counts({400, 100, 100, 100});
  EXPECT_EQ(experts_of(a), experts_of(b));
  EXPECT_FALSE(skewed.reacts());
  EXPECT_EQ(a.planning, Seconds(100e-6));
  EXPECT_TRUE(a.planning_blocks && a.after_gate);
  const auto loads = served(b, skewed.loads());
  EXPECT_EQ(loads[0] + loads[1], 700);
  // Own experts 0 and 2 against 1 and 3, 500 to 200, were it not for the replica of expert 0.
  EXPECT_NEAR(static_cast<double>(loads[0]), 350, 4);
}

TEST(LplbPlacement, CubeNeedsEightRanksAndTwoExperts) {
  EXPECT_NO_THROW(ServingPlay("{kind: lplb}", {1, 8, 8}, 16));
  EXPECT_THROW(ServingPlay("{kind: lplb}", {1, 8, 8}, 8), Unsuitable);
  EXPECT_THROW(ServingPlay("{kind: lplb}", four_gpus, 16), Unsuitable);
  EXPECT_NO_THROW(ServingPlay("{kind: lplb, topology: torus}", {1, 8, 8}, 16));
  EXPECT_NO_THROW(ServingPlay("{kind: lplb, topology: hypercube}", {2, 8, 16}, 32));
}

}  // namespace
}  // namespace moesim
