// SPDX-License-Identifier: Apache-2.0
// Placements that copy loaded experts: FasterMoE's shadowing and Pro-Prophet.
#include <gtest/gtest.h>

#include <string>

#include "tests/mechanism/placement/training/training_play.h"

namespace moesim {
namespace {

/// The model of FasterMoE's defaults: H 2048, width 4096, two matrices, fp32.
MoeModel fastermoe_model() {
  MoeModel model = toy_model(4, 1);
  model.hidden = 2048;
  model.expert_ffn = 4096;
  model.expert_matrices = 2;
  model.activations = model.weights = DataType::fp32;
  return model;
}

const std::string shadowing = "kind: shadowing, bandwidth: 6.25 GB/s, throughput: 11.5 TFLOP/s";
// By the rule of the code each shadow must save 767.2 choices: expert totals of 4000, 3200, 2436
// and 2000 are worth one.
const std::vector<std::vector<int>> worth_one(4, {1000, 800, 609, 500});
const std::vector<std::vector<int>> worth_none(4, {1000, 900, 800, 700});

TEST(Shadowing, CopiesLoadedExpertsAfterTheGate) {
  TrainingPlay play("{" + shadowing + "}", fastermoe_model());
  EXPECT_TRUE(play.reacts());
  const LayerDecision decision = play.show_loads(worth_one);
  EXPECT_TRUE(decision.after_gate);
  EXPECT_EQ(experts_of(decision), (Experts{{0}, {1, 0}, {2, 0}, {3, 0}}));
  const std::int64_t weights = 2LL * 2048 * 4096 * 4, gradients = weights / 2;
  EXPECT_EQ(flows_of(decision.gather),
            (std::vector<Flows>{{{{0, 1}, weights}, {{1, 2}, weights}, {{2, 3}, weights}}}));
  EXPECT_EQ(flows_of(decision.reduce),
            (std::vector<Flows>{{{{1, 0}, gradients}, {{2, 1}, gradients}, {{3, 2}, gradients}}}));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(decision.assignment.gpu(GpuId(rank), ExpertId(0)), GpuId(rank));
    EXPECT_EQ(decision.assignment.gpu(GpuId(rank), ExpertId(2)), GpuId(2));
  }
  EXPECT_EQ(decision.memory[0].gathered, Bytes(0));
  EXPECT_EQ(decision.memory[1].gathered, Bytes(weights + gradients));
  EXPECT_EQ(decision.memory[1].weights, Bytes(weights));
  EXPECT_TRUE(play.show_loads(worth_none).gather.empty());
}

TEST(Shadowing, BroadcastsAndReducesByNode) {
  TrainingPlay play("{" + shadowing + ", broadcast: by-node}", fastermoe_model());
  const LayerDecision decision = play.show_loads(worth_one);
  const std::int64_t weights = 2LL * 2048 * 4096 * 4, gradients = weights / 2;
  EXPECT_EQ(flows_of(decision.gather),
            (std::vector<Flows>{{{{0, 1}, weights}, {{0, 2}, weights}}, {{{2, 3}, weights}}}));
  EXPECT_EQ(
      flows_of(decision.reduce),
      (std::vector<Flows>{{{{3, 2}, gradients}}, {{{1, 0}, gradients}, {{2, 0}, gradients}}}));
}

TEST(Shadowing, VariantsDiffer) {
  // The paper sees that GPU 1, with its own choices for expert 0, would compute 4200; the corrected
  // code also charges eight transfers. All want a shadow where expert 0 has 20000 of 21200 choices.
  const std::vector<std::vector<int>> hot(4, {5000, 100, 100, 100});
  for (const std::string variant : {"paper", "code", "corrected"}) {
    TrainingPlay play("{" + shadowing + ", variant: " + variant + "}", fastermoe_model());
    EXPECT_EQ(play.show_loads(worth_one).gather.empty(), variant != "code") << variant;
    EXPECT_EQ(experts_of(play.show_loads(hot)), (Experts{{0}, {1, 0}, {2, 0}, {3, 0}})) << variant;
  }
}

// Transfers that cost next to nothing: who is copied depends only on loads.
const std::string prophet =
    "kind: pro-prophet, bandwidth: 1000 GB/s, throughput: 1 GFLOP/s, broadcast: direct, "
    "balance: 1";

TEST(ProProphet, PlansFromTheStepBefore) {
  TrainingPlay play("{" + prophet + ", excluded: 0, planning_time: 1 ms}", toy_model(4, 1));
  const LayerDecision first = play.show_loads(skewed_loads);
  EXPECT_EQ(experts_of(first), (Experts{{0}, {1}, {2}, {3}}));
  EXPECT_EQ(first.planning, Seconds(0));
  const LayerDecision second = play.show_loads(even_loads);
  EXPECT_EQ(experts_of(second), (Experts{{0}, {1, 0}, {2, 0}, {3, 0}}));
  EXPECT_EQ(flows_of(second.gather),
            (std::vector<Flows>{{{{0, 1}, 288}, {{0, 2}, 288}, {{0, 3}, 288}}}));
  EXPECT_EQ(flows_of(second.reduce),
            (std::vector<Flows>{{{{1, 0}, 288}, {{2, 0}, 288}, {{3, 0}, 288}}}));
  EXPECT_EQ(second.planning, Seconds(1e-3));
  EXPECT_FALSE(second.after_gate);
  EXPECT_TRUE(play.show_loads(even_loads).gather.empty());
}

TEST(ProProphet, ExcludedGpusSendToTheHome) {
  TrainingPlay play("{" + prophet + ", excluded: 1}", toy_model(4, 1));
  play.show_loads({{40, 4, 4, 4}, {40, 4, 4, 4}, {19, 11, 11, 11}, {40, 4, 4, 4}});
  const LayerDecision decision = play.show_loads(skewed_loads);
  EXPECT_EQ(experts_of(decision), (Experts{{0}, {1, 0}, {2}, {3, 0}}));
  EXPECT_EQ(decision.assignment.gpu(GpuId(2), ExpertId(0)), GpuId(0));
  EXPECT_EQ(decision.assignment.gpu(GpuId(3), ExpertId(0)), GpuId(3));
}

}  // namespace
}  // namespace moesim
