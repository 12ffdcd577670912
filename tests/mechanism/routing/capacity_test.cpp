// SPDX-License-Identifier: Apache-2.0
// Capacities and what they drop: a published table, hand examples and independent enumerations.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "sim/mechanism/routing/capacity_rule.h"
#include "tests/mechanism/routing/recorded_layer.h"

namespace moesim {
namespace {

TEST(Capacity, FormulasGiveThePublishedTable) {
  struct Case {
    int experts, top_k;
    double factor;
    std::int64_t mesh, flaxformer, tutel, megatron;
  };
  for (const Case& c : {Case{64, 2, 1.25, 80, 80, 160, 160}, Case{128, 1, 1.25, 40, 40, 40, 40},
                        Case{60, 4, 1.2, 81, 82, 328, 328}}) {
    const auto rows = [&](CapacityRule rule) {
      return Capacity{rule, c.factor}.rows(4096, c.experts, c.top_k);
    };
    EXPECT_EQ(rows(CapacityRule::mesh), c.mesh);
    EXPECT_EQ(rows(CapacityRule::flaxformer), c.flaxformer);
    EXPECT_EQ(rows(CapacityRule::tutel), c.tutel);
    EXPECT_EQ(rows(CapacityRule::megatron), c.megatron);
  }
  const Capacity gshard{CapacityRule::fastmoe_gshard, 1.25};
  EXPECT_EQ(gshard.rows(4096, 64, 2), 160);
  EXPECT_EQ(gshard.rows(4096, 60, 4), 341);  // 5120 x 4 div 60
  const Capacity deepspeed{CapacityRule::deepspeed, 1};
  EXPECT_EQ(deepspeed.rows(4096, 60, 4), 274);  // ceil(68.27 x 4)
  EXPECT_EQ(deepspeed.rows(16, 64, 2), 4);      // min_capacity
  const Capacity capped{CapacityRule::tutel, -1.5};
  EXPECT_EQ(capped.rows(4096, 64, 2), 192);
}

// Eight tokens on four experts, top-1, factor 1: two places each, unless the rule has a floor of 4.
TEST(Capacity, SomeRulesHaveAFloor) {
  const auto rows = [](CapacityRule rule) { return Capacity{rule, 1}.rows(8, 4, 1); };
  EXPECT_EQ(rows(CapacityRule::mesh), 4);
  EXPECT_EQ(rows(CapacityRule::flaxformer), 4);
  EXPECT_EQ(rows(CapacityRule::deepspeed), 4);
  EXPECT_EQ(rows(CapacityRule::tutel), 2);
  EXPECT_EQ(rows(CapacityRule::megatron), 2);
}

// Tokens (0,1),(0,1),(0,1),(1,0) with two places at each expert keep t0 both, t1 first, t3 first.
TEST(Capacity, FirstChoicesAreServedFirst) {
  const Recorded four(2, 1, 2, {0, 1, 0, 1, 0, 1, 1, 0});
  const auto result = route("{kind: capacity, rule: tutel, factor: 0.5}", four);
  EXPECT_EQ(result.rows, (Rows{{0, 1}, {0, -1}, {-1, -1}, {1, -1}}));
  EXPECT_EQ(result.change.dropped_choices, 4);
  EXPECT_EQ(result.change.replaced_choices, 0);
}

// Megatron-LM goes token by token: t0 and t1 take both places of both experts.
TEST(Capacity, MegatronServesTokensInOrder) {
  const Recorded four(2, 1, 2, {0, 1, 0, 1, 0, 1, 1, 0});
  EXPECT_EQ(route("{kind: capacity, rule: megatron, factor: 0.5}", four).rows,
            (Rows{{0, 1}, {0, 1}, {-1, -1}, {-1, -1}}));
}

TEST(Capacity, WeightsDecideWhereAsked) {
  // Three tokens for expert 0 with two places (ceil(3 x 1 / 2 x 1) = 2): the lightest goes.
  const Recorded three(2, 1, 1, {0, 0, 0}, {0.3F, 0.2F, 0.9F});
  const std::string rule = "{kind: capacity, rule: megatron, factor: 1, drop: ";
  EXPECT_EQ(route(rule + "weights}", three).rows, (Rows{{0}, {-1}, {0}}));
  EXPECT_EQ(route(rule + "position}", three).rows, (Rows{{0}, {0}, {-1}}));
  const Recorded bare(2, 1, 1, {0, 0, 0});
  EXPECT_THROW(route(rule + "weights}", bare), Error);
}

// For every choice: it is kept when fewer than C of its rank's choices for that expert come before.
TEST(Capacity, RandomCasesEqualAnIndependentEnumeration) {
  std::mt19937 random(11);
  const std::vector<std::string> drops = {"position", "weights", "batch-priority"};
  const std::vector<std::string> rules = {"tutel", "megatron", "deepspeed", "fastmoe-gshard"};
  int dropped = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const int top_k = static_cast<int>(1 + random() % 3);
    const int experts = top_k + static_cast<int>(random() % 4);
    const int ranks = static_cast<int>(1 + random() % 3);
    const int per_rank = static_cast<int>(1 + random() % 20);
    const bool weights = random() % 2 == 0;
    const Recorded r = random_layer(random, ranks, per_rank, experts, top_k, weights);
    const std::string drop = drops[weights ? random() % 3 : 0];
    const std::size_t rule = random() % rules.size();
    const auto result = route(
        fmt::format("{{kind: capacity, rule: {}, factor: 0.6, drop: {}}}", rules[rule], drop), r);
    const bool by_choice = rule == 0 || rule == 3 || (rule == 2 && top_k < 3);
    const std::int64_t capacity =
        Capacity{std::vector{CapacityRule::tutel, CapacityRule::megatron, CapacityRule::deepspeed,
                             CapacityRule::fastmoe_gshard}[rule],
                 0.6}
            .rows(per_rank, experts, top_k);
    Rows expected = r.rows();
    for (int rank = 0; rank < ranks; ++rank) {
      for (int e = 0; e < experts; ++e) {
        std::vector<std::tuple<double, double, int, int>> asking;  // keys, token, place
        for (int t = rank * per_rank; t < (rank + 1) * per_rank; ++t) {
          const auto order = order_of(r, t);
          for (int i = 0; i < top_k; ++i) {
            const int k = order[static_cast<std::size_t>(i)];
            if (r.step->ids(0).at(t, k) != e) continue;
            const double best = weights ? r.step->weight(0, t, order[0]) : 0;
            const double own = weights ? r.step->weight(0, t, k) : 0;
            asking.push_back({drop == "weights" || !by_choice ? 0 : i,
                              drop == "weights"    ? -own
                              : drop == "position" ? 0
                                                   : -best,
                              t, k});
          }
        }
        std::sort(asking.begin(), asking.end());
        for (std::size_t i = static_cast<std::size_t>(capacity); i < asking.size(); ++i) {
          const auto& [a, b, t, k] = asking[i];
          expected[static_cast<std::size_t>(t)][static_cast<std::size_t>(k)] = -1;
          ++dropped;
        }
      }
    }
    ASSERT_EQ(result.rows, expected) << "trial " << trial << " " << rules[rule] << " " << drop;
  }
  EXPECT_GT(dropped, 1000);
}

// Switch: top-1. Eight tokens on four experts at factor 1 have max(4, 8 / 4) = 4 places each: of
// six tokens whose best is expert 0 two are dropped, and so are all second choices.
TEST(Capacity, OnlyTheBestChoicesAsk) {
  std::vector<int> ids;
  std::vector<float> weights;
  for (int t = 0; t < 8; ++t) {
    ids.insert(ids.end(), {1, t < 6 ? 0 : 2});  // the second place is the heavier one
    weights.insert(weights.end(), {0.1F, 0.7F});
  }
  const Recorded eight(4, 1, 2, ids, weights);
  const auto result = route("{kind: capacity, rule: mesh, factor: 1, choices: 1}", eight);
  EXPECT_EQ(result.rows,
            (Rows{{-1, 0}, {-1, 0}, {-1, 0}, {-1, 0}, {-1, -1}, {-1, -1}, {-1, 2}, {-1, 2}}));
  EXPECT_EQ(result.change.dropped_choices, 10);
  // Rules that count choices count the ones that ask: Tutel's capacity of top-1 is 1 x 8 / 4.
  const auto tutel = route("{kind: capacity, rule: tutel, factor: 1, choices: 1}", eight);
  EXPECT_EQ(tutel.change.dropped_choices, 8 + 4);
}

// GShard, probability min(1, g2 / 0.2) with g2 = w2 / (w1 + w2): always from a fifth of both on,
// never without weight, half of the times at a tenth.
TEST(Capacity, ASecondChoiceAsksByChance) {
  const auto kept = [](float second, int tokens, const std::string& more = "") {
    std::vector<int> ids;
    std::vector<float> weights;
    for (int t = 0; t < tokens; ++t) {
      ids.insert(ids.end(), {t % 2, 2 + t % 2});
      weights.insert(weights.end(), {1 - second, second});
    }
    const Recorded r(4, 1, 2, ids, weights);
    const std::string rule =
        "{kind: capacity, rule: mesh, factor: 4, choices: 2, second: random" + more + "}";
    const auto result = route(rule, r);
    EXPECT_EQ(result.rows, route(rule, r).rows);
    for (std::size_t t = 0; t < result.rows.size(); ++t)
      EXPECT_EQ(result.rows[t][0], static_cast<int>(t % 2));
    return tokens - result.change.dropped_choices;
  };
  EXPECT_EQ(kept(0.2F, 200), 200);
  EXPECT_EQ(kept(0.5F, 200), 200);
  EXPECT_EQ(kept(0, 200), 0);
  const auto half = kept(0.1F, 10000);
  EXPECT_NEAR(static_cast<double>(half), 5000, 200);  // four standard deviations
  EXPECT_NE(half, kept(0.1F, 10000, ", seed: 2"));
  EXPECT_THROW(route("{kind: capacity, second: random}", Recorded(2, 1, 2, {0, 1})), Error);
}

// Six tokens, four places (the floor) at each of two experts: three first choices each, and one
// place for a second one. The first token whose second choice asks gets it, not the first token.
TEST(Capacity, AChoiceThatDoesNotAskTakesNoPlace) {
  const Recorded six(2, 1, 2, {0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0},
                     {1, 0, 0.5F, 0.5F, 0.5F, 0.5F, 1, 0, 1, 0, 0.5F, 0.5F});
  const auto result =
      route("{kind: capacity, rule: mesh, factor: 1, choices: 2, second: random}", six);
  EXPECT_EQ(result.rows, (Rows{{0, -1}, {0, 1}, {0, -1}, {1, -1}, {1, -1}, {1, 0}}));
  EXPECT_EQ(result.change.dropped_choices, 4);
}

// The capacity is a rank's own: token 2 is one too many on rank 0, and the only one on rank 1.
TEST(Capacity, ATokenHeldTwiceIsDroppedWhereItIsTooMany) {
  Recorded r(2, 1, 1, {0, 0, 0});
  r.batch.ranks.push_back({{2, 1}});
  const auto result = route("{kind: capacity, rule: megatron, factor: 1}", r, {}, 1);
  EXPECT_EQ(result.rows, (Rows{{0}, {0}, {-1}, {0}}));
  EXPECT_EQ(result.change.dropped_choices, 1);
}

}  // namespace
}  // namespace moesim
