// SPDX-License-Identifier: Apache-2.0
// Placements that exchange slots between steps: expert swapping and SmartMoE.
#include <gtest/gtest.h>

#include "sim/base/unsuitable.h"
#include "sim/model/group_counts.h"
#include "tests/mechanism/placement/training/training_play.h"
#include "tests/model/one_token.h"

namespace moesim {
namespace {

// The tokens of the paper's Fig. 7, experts counted from 0: nodes are touched by 4 and 3 of them,
// by 2 and 3 once experts 0 and 3 have exchanged slots. The pair (1, 2) is as good.
const std::vector<int> fig7 = {0, 2, 0, 2, 1, 3, 0, 1};

TEST(ExpertSwap, ExchangesTheBestPairBeforeTheNextStep) {
  TrainingPlay play("{kind: expert-swap, depth: 2}", toy_model(4, 2));
  const LayerDecision first = play.show(fig7);
  EXPECT_EQ(experts_of(first), (Experts{{0}, {1}, {2}, {3}}));
  EXPECT_TRUE(first.migrate.empty());
  const LayerDecision second = play.show(fig7);
  EXPECT_EQ(experts_of(second), (Experts{{3}, {1}, {2}, {0}}));
  EXPECT_EQ(flows_of(second.migrate), (std::vector<Flows>{{{{0, 3}, 288}, {{3, 0}, 288}}}));
  EXPECT_EQ(second.migration, Migration::blocks);
  EXPECT_FALSE(play.reacts());
}

// 144 parameters: 2 bytes each, and 12 more of optimizer state.
TEST(ExpertSwap, MovesStateTooWhenAsked) {
  TrainingPlay play("{kind: expert-swap, depth: 2, payload: state}", toy_model(4, 2));
  play.show(fig7);
  EXPECT_EQ(flows_of(play.show(fig7).migrate),
            (std::vector<Flows>{{{{0, 3}, 2016}, {{3, 0}, 2016}}}));
}

TEST(ExpertSwap, KeepsItsInterval) {
  TrainingPlay play("{kind: expert-swap, depth: 2, interval: 2}", toy_model(4, 2));
  play.show(fig7);
  EXPECT_TRUE(play.show(fig7).migrate.empty());
  EXPECT_FALSE(play.show(fig7).migrate.empty());
}

TEST(ExpertSwap, TheRoutingJustBeforeADecisionCounts) {
  // Every pair of experts twice: no exchange changes anything.
  const std::vector<int> all_pairs = {0, 1, 2, 3, 0, 2, 1, 3, 0, 3, 1, 2,
                                      0, 1, 2, 3, 0, 2, 1, 3, 0, 3, 1, 2};
  TrainingPlay play("{kind: expert-swap, depth: 2, interval: 2}", toy_model(4, 2));
  play.show(fig7), play.show(all_pairs);
  EXPECT_TRUE(play.show(fig7).migrate.empty());
  play.show(fig7);
  EXPECT_EQ(experts_of(play.show(all_pairs)), (Experts{{3}, {1}, {2}, {0}}));
}

/// P_1 of the layer: the tokens that touch each node.
std::vector<std::int64_t> touching_nodes(const Assignment& assignment, const std::vector<int>& ids,
                                         int top_k) {
  GroupCounts counts({4, {1, 2}}, CountReading::mean);
  for (std::size_t t = 0; t * static_cast<std::size_t>(top_k) < ids.size(); ++t) {
    std::vector<GpuId> targets;
    for (int k = 0; k < top_k; ++k) {
      const int e = ids[t * static_cast<std::size_t>(top_k) + static_cast<std::size_t>(k)];
      targets.push_back(assignment.gpu(GpuId(0), ExpertId(e)));
    }
    add_token(counts, GpuId(0), targets);
  }
  return totals(counts, 1, Copies::per_group);
}

TEST(ExpertSwap, LowersWhatTheBusiestNodeReceives) {
  TrainingPlay play("{kind: expert-swap, depth: 2}", toy_model(4, 2));
  const auto before = touching_nodes(play.show(fig7).assignment, fig7, 2);
  EXPECT_EQ(before, (std::vector<std::int64_t>{4, 3}));
  const auto after = touching_nodes(play.show(fig7).assignment, fig7, 2);
  EXPECT_EQ(after, (std::vector<std::int64_t>{2, 3}));
}

TEST(ExpertSwap, SeveralPairsGoOnUntilNothingHelps) {
  MoeModel model = toy_model(16, 1);
  model.hidden = 8192;   // of smaller rows latencies hide some
  std::vector<int> ids;  // half of the tokens choose one of four experts of GPU 0
  for (int t = 0; t < 256; ++t) ids.push_back(t % 2 == 0 ? t / 2 % 4 : t / 2 % 16);
  TrainingPlay one("{kind: expert-swap, depth: 1}", model);
  TrainingPlay all("{kind: expert-swap, depth: 1, pairs: 99}", model);
  one.show(ids), all.show(ids);
  const Bytes weights(2 * model.expert_parameters());
  EXPECT_EQ(one.show(ids).migrate.at(0).traffic.total(), weights * 2);
  EXPECT_GE(all.show(ids).migrate.at(0).traffic.total(), weights * 6);
  EXPECT_TRUE(all.show(ids).migrate.empty());
}

TEST(ExpertSwap, RunsSwapByThemselves) {
  TrainingPlay play("{kind: expert-swap}", toy_model(4, 1), 2);
  // Ranks 0 and 1 choose evenly; ranks 2 and 3 load experts 0 and 1 of GPU 2.
  const std::vector<std::vector<int>> loads = {
      {2, 2, 2, 2}, {2, 2, 2, 2}, {4, 4, 0, 0}, {4, 4, 0, 0}};
  play.show_loads(loads);
  const LayerDecision next = play.show_loads(loads);
  EXPECT_EQ(experts_of(next), (Experts{{0, 1}, {2, 3}, {2, 1}, {0, 3}}));
  EXPECT_EQ(flows_of(next.migrate), (std::vector<Flows>{{{{2, 3}, 288}, {{3, 2}, 288}}}));
}

TEST(ExpertSwap, SaysWhenTheClusterIsNotThatDeep) {
  EXPECT_THROW(TrainingPlay("{kind: expert-swap, depth: 7}", toy_model(4, 2)), Unsuitable);
}

TEST(SmartMoe, DealsOutByTheTwoStepsBefore) {
  TrainingPlay play("{kind: smart-moe, interval: 2}", toy_model(8, 1));
  // Over two steps 10, 9, 8, 7, 4, 3, 2 and 1 choices, as in the published example.
  const std::vector<std::vector<int>> a = {{6, 0, 0, 0, 0, 0, 0, 0},
                                           {0, 6, 0, 0, 0, 0, 0, 0},
                                           {0, 0, 6, 0, 0, 0, 0, 0},
                                           {0, 0, 0, 3, 3, 0, 0, 0}};
  const std::vector<std::vector<int>> b = {{4, 1, 0, 0, 0, 0, 0, 0},
                                           {0, 2, 2, 1, 0, 0, 0, 0},
                                           {0, 0, 0, 3, 1, 1, 0, 0},
                                           {0, 0, 0, 0, 0, 2, 2, 1}};
  EXPECT_TRUE(play.show_loads(a).migrate.empty());
  EXPECT_TRUE(play.show_loads(b).migrate.empty());
  const LayerDecision third = play.show_loads(a);
  EXPECT_EQ(experts_of(third), (Experts{{0, 7}, {1, 6}, {2, 5}, {3, 4}}));
  EXPECT_EQ(flows_of(third.migrate), (std::vector<Flows>{{{{0, 1}, 288},
                                                          {{1, 2}, 288},
                                                          {{1, 3}, 288},
                                                          {{2, 3}, 288},
                                                          {{3, 0}, 288},
                                                          {{3, 1}, 288}}}));
  EXPECT_FALSE(play.reacts());
}

// As ExpertSwap.MovesStateTooWhenAsked: what an expert weighs does not depend on who moves it.
TEST(SmartMoe, PaysTheSameForAnExpertAsHierMoe) {
  TrainingPlay play("{kind: smart-moe, interval: 1, payload: state}", toy_model(8, 1));
  const std::vector<std::vector<int>> first_loaded(4, {4, 4, 1, 0, 0, 0, 0, 0});
  play.show_loads(first_loaded);
  const std::vector<Flows> moved = flows_of(play.show_loads(first_loaded).migrate);
  ASSERT_EQ(moved.size(), 1U);
  ASSERT_FALSE(moved[0].empty());
  for (const auto& flow : moved[0]) EXPECT_EQ(flow.second % 2016, 0);
}

TEST(SmartMoe, LeavesEvenLoadsAlone) {
  TrainingPlay play("{kind: smart-moe, interval: 1}", toy_model(4, 1));
  const std::vector<std::vector<int>> even(4, {1, 1, 1, 1});
  play.show_loads(even);
  EXPECT_TRUE(play.show_loads(even).migrate.empty());
}

}  // namespace
}  // namespace moesim
