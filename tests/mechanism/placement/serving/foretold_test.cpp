// SPDX-License-Identifier: Apache-2.0
// Plans before the gate: what they follow from, and what a wrong prediction costs.
#include <gtest/gtest.h>

#include "sim/mechanism/placement/serving/free_balance.h"
#include "tests/mechanism/hand_steps.h"
#include "tests/mechanism/placement/serving/serving_play.h"

namespace moesim {
namespace {

using Served = std::vector<std::int64_t>;

TEST(Foretold, AWrongPredictionIsPaidFor) {
  const auto play_of = [](const std::string& predictor) {
    return ServingPlay("{kind: probe, predictor: " + predictor + "}", pair_of_gpus, 4);
  };
  ServingPlay play = play_of("step");
  const LayerDecision first = play.show_counts({8, 1, 1, 2});
  EXPECT_EQ(experts_of(first), (Experts{{0, 1}, {2, 3}})) << "nothing was seen yet";
  EXPECT_TRUE(first.gather.empty());
  const LayerDecision right = play.show_counts({8, 1, 1, 2});
  EXPECT_EQ(experts_of(right), (Experts{{0, 1}, {2, 3, 0}}));
  EXPECT_EQ(served(right, play.loads()), (Served{7, 5}));
  EXPECT_EQ(bytes(right.gather, 0, 1), expert);
  EXPECT_FALSE(right.after_gate);
  EXPECT_FALSE(right.planning_blocks);
  // A quarter of expert 0 goes to the GPU that is loaded now: 10 rows, where no plan has 9.
  const LayerDecision wrong = play.show_counts({4, 1, 1, 8});
  EXPECT_EQ(served(wrong, play.loads()), (Served{4, 10}));
  ServingPlay knowing = play_of("oracle");
  EXPECT_EQ(served(knowing.show_counts({4, 1, 1, 8}), knowing.loads()), (Served{6, 8}));
}

TEST(Foretold, TheLayerBeforeForetellsTheNextInTheSameStep) {
  ServingPlay play("{kind: probe, predictor: layer}", pair_of_gpus, 4, 1, 2);
  const Experts native = {{0, 1}, {2, 3}};
  // Tokens with expert 0 continue to expert 2, the others to expert 1.
  play.show({0, 0, 0, 0, 0, 0, 1, 3}, 0);
  EXPECT_EQ(experts_of(play.show({2, 2, 2, 2, 2, 2, 1, 1}, 1)), native) << "no profile yet";
  play.show({0, 0, 0, 0, 0, 0, 1, 3}, 0);
  EXPECT_EQ(experts_of(play.show({0, 1, 2, 3, 0, 1, 2, 3}, 1)), (Experts{{0, 1, 2}, {2, 3}}));
}

TEST(Foretold, ExpertsWithoutForeseenRowsAreServedAtHome) {
  ServingPlay play("{kind: probe, predictor: step}", pair_of_gpus, 4);
  play.show_counts({8, 4, 0, 0});
  EXPECT_EQ(served(play.show_counts({0, 0, 6, 6}), play.loads()), (Served{0, 12}));
}

/// Ops of a kind in the plan of the first step, whose layer has 7 of 8 rows for rank 0.
int ops_of(OpKind kind, const std::string& placement, int hash_layers) {
  const HandSteps steps(1, 2, 4, {{0}, {0}, {0}, {0}, {0}, {1}, {1}, {2}}, 1, 0, hash_layers);
  int count = 0;
  for (const Op& op : steps.last("identity", placement, "dedup").plan.ops) {
    count += op.key.kind == kind ? 1 : 0;
  }
  return count;
}

TEST(HashLayers, AreKnownBeforeTheirGate) {
  const std::string after = "{kind: moon-ep, planning_time: 50 us}";
  EXPECT_EQ(ops_of(OpKind::planning, after, 0), 1);
  EXPECT_EQ(ops_of(OpKind::planning, after, 1), 0) << "nothing waits for a plan made before";
  const std::string predicted = "{kind: probe, predictor: step}";
  EXPECT_EQ(ops_of(OpKind::parameter_exchange, predicted, 0), 0) << "no step was seen";
  EXPECT_EQ(ops_of(OpKind::parameter_exchange, predicted, 1), 1) << "the loads are known";
}

TEST(FreeBalance, SwapsTheTwoThatLevelMost) {
  const llep::Plan plan = free_balance(std::vector<std::int64_t>{5, 4, 1, 2}, 2, 2, 4);
  EXPECT_EQ(plan.loads, (std::vector<std::int64_t>{6, 6}));
  EXPECT_EQ(llep::table(plan), (SlotTable{{ExpertId(0), ExpertId(1), ExpertId(3)},
                                          {ExpertId(2), ExpertId(3), ExpertId(0)}}));
  EXPECT_EQ(plan.transfers, (std::vector<WeightMove>{{ExpertId(3), GpuId(1), GpuId(0)},
                                                     {ExpertId(0), GpuId(0), GpuId(1)}}));
  EXPECT_TRUE(free_balance(std::vector<std::int64_t>{8, 1, 1, 2}, 2, 2, 4).transfers.empty())
      << "any swap makes the other GPU the most loaded one";
}

TEST(FreeBalance, SwapsStayInTheirDomainAndCanBeFew) {
  const std::vector<std::int64_t> counts = {6, 6, 1, 1, 6, 6, 1, 1};
  EXPECT_EQ(free_balance(counts, 4, 2, 1).loads, (std::vector<std::int64_t>{7, 7, 7, 7}));
  EXPECT_EQ(free_balance(counts, 4, 2, 0).loads, (std::vector<std::int64_t>{12, 2, 12, 2}));
  EXPECT_EQ(free_balance(counts, 4, 1, 4).loads, (std::vector<std::int64_t>{12, 2, 12, 2}));
}

TEST(FreeBalance, ForeseenSwapsServeTheSameLoadsEvenly) {
  ServingPlay play("free-balance", pair_of_gpus, 4);
  EXPECT_EQ(served(play.show_counts({5, 4, 1, 2}), play.loads()), (Served{9, 3}));
  const LayerDecision d = play.show_counts({5, 4, 1, 2});
  EXPECT_EQ(served(d, play.loads()), (Served{6, 6}));
  EXPECT_EQ(bytes(d.gather, 0, 1), expert);
  EXPECT_EQ(bytes(d.gather, 1, 0), expert);
}

}  // namespace
}  // namespace moesim
