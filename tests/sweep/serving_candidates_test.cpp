// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace moesim {
namespace {

/// Times by formula.
class FormulaRates : public KindRates {
 public:
  using Time = std::function<double(std::size_t, double)>;
  FormulaRates(Time decode, std::function<double(std::size_t)> prompts)
      : decode_(std::move(decode)), prompts_(std::move(prompts)) {}
  double decode_time(std::size_t kind, double sequences) override {
    return decode_(kind, sequences);
  }
  double prompt_tokens_per_second(std::size_t kind) override { return prompts_(kind); }

 private:
  Time decode_;
  std::function<double(std::size_t)> prompts_;
};

TEST(ServingCandidates, WordsNameGroupsAndPolicy) {
  EXPECT_EQ((ServingInstanceKind{16, 1, 16, 1, "deepep", {}, ""}.words()), "tp1 ep16 deepep");
  EXPECT_EQ((ServingInstanceKind{4, 4, 1, 4, "of/mine.yaml", {}, ""}.words()),
            "tp4 ep1 etp4 mine.yaml");
}

/// One kind of 2 GPUs: a pass of n sequences takes 10 ms + n x 1 ms, a prompt 1 ms per 10 tokens.
TEST(ServingCandidates, OnePoolTakesPromptsAndPasses) {
  const std::vector<ServingInstanceKind> kinds = {{2, 2, 2, 1, "all", {}, ""}};
  FormulaRates rates([](std::size_t, double n) { return 0.01 + 0.001 * n; },
                     [](std::size_t) { return 10000.0; });
  const ServingDemand demand{1000, 100, 20, 4};
  const auto plans = rough_plans(kinds, demand, 0, rates);
  const auto one =
      std::ranges::find(plans, 0, [](const RoughPlan& p) { return p.plan.decode_instances; });
  // Two instances of 10 in flight: a request takes 0.1 s of prompt and 100 x 20 ms / 10.
  EXPECT_EQ(one->plan.prompt_instances, 2);
  EXPECT_NEAR(one->rate, 2 / 0.3 * 100 / 4, 1e-9);
  EXPECT_NEAR(one->tpot, 0.3 * 10 / 100, 1e-12);
}

TEST(ServingCandidates, PoolsApartAreAsFastAsTheSlowerOne) {
  const std::vector<ServingInstanceKind> kinds = {{2, 2, 2, 1, "all", {}, ""}};
  FormulaRates rates([](std::size_t, double n) { return 0.01 + 0.001 * n; },
                     [](std::size_t) { return 10000.0; });
  const ServingDemand demand{1000, 100, 20, 4};
  const auto plans = rough_plans(kinds, demand, 0, rates);
  ASSERT_EQ(plans.size(), 2U);
  const auto apart =
      std::ranges::find(plans, 1, [](const RoughPlan& p) { return p.plan.decode_instances; });
  // 20 sequences decode in 30 ms: 6.7 requests per second; one instance computes 10 prompts.
  EXPECT_NEAR(apart->tpot, 0.03, 1e-12);
  EXPECT_NEAR(apart->rate, 20 / 0.03 / 4, 1e-9);
}

TEST(ServingCandidates, PlansWithinTheTimePerTokenComeFirst) {
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "all", {}, ""},
                                                  {4, 4, 4, 1, "all", {}, ""}};
  FormulaRates rates([](std::size_t kind, double n) { return kind == 0 ? 0.1 : 0.02 + 0.001 * n; },
                     [](std::size_t) { return 1e5; });
  const auto plans = rough_plans(kinds, {100, 100, 16, 4}, 0.05, rates);
  ASSERT_GT(plans.size(), 1U);
  EXPECT_EQ(plans.front().plan.prompts, 1U);
  EXPECT_LE(plans.front().tpot, 0.05);
  for (std::size_t i = 1; i < plans.size(); ++i) EXPECT_GT(plans[i].tpot, 0.05);
}

/// "GPUs: words" of each.
std::vector<std::string> kinds_of(const std::vector<ServingPolicy>& policies, int nodes, int gpus) {
  std::vector<std::string> words;
  for (const ServingInstanceKind& kind : instance_kinds(policies, nodes, gpus)) {
    words.push_back(std::to_string(kind.gpus) + ": " + kind.words());
  }
  return words;
}

TEST(ServingCandidates, KindsAreAllTensorSizesOfPartsOfTheCluster) {
  using testing::ElementsAre;
  EXPECT_THAT(kinds_of({{"low", false}, {"all", true}}, 2, 4),
              ElementsAre("8: tp1 ep8 low", "8: tp1 ep8 all", "8: tp2 ep8 all", "8: tp4 ep8 all",
                          "4: tp1 ep4 low", "4: tp1 ep4 all", "4: tp2 ep4 all", "4: tp4 ep4 all",
                          "4: tp4 ep1 etp4 all", "2: tp1 ep2 low", "2: tp1 ep2 all",
                          "2: tp2 ep2 all", "2: tp2 ep1 etp2 all", "1: tp1 ep1 all"));
  EXPECT_THAT(kinds_of({{"low", false}}, 1, 2),
              ElementsAre("2: tp1 ep2 low", "2: tp2 ep2 megatron-allgather",
                          "2: tp2 ep1 etp2 megatron-allgather", "1: tp1 ep1 megatron-allgather"));
  EXPECT_THAT(kinds_of({{"all", true}}, 3, 4),
              ElementsAre("12: tp1 ep12 all", "12: tp2 ep12 all", "12: tp4 ep12 all"))
      << "neither 6 nor 3 GPUs are whole nodes, or part of one";
  EXPECT_THAT(kinds_of({{"all", true}}, 1, 6),
              ElementsAre("6: tp1 ep6 all", "6: tp2 ep6 all", "3: tp1 ep3 all"));
}

TEST(ServingCandidates, KindsChangeTheScenarioToTheirSizes) {
  const auto flags = [](int gpus) {
    const auto kinds = instance_kinds({{"all", true}}, 2, 4);
    std::string text;
    for (const Override& flag : std::ranges::find(kinds, gpus, &ServingInstanceKind::gpus)->flags) {
      text += flag.path + "=" + flag.value + " ";
    }
    return text;
  };
  const std::string sizes = "policy=all parallel.tp=1 parallel.ep=";
  EXPECT_EQ(flags(8), sizes + "8 parallel.etp=1 set=topology.nodes=2 ");
  EXPECT_EQ(flags(4), sizes + "4 parallel.etp=1 set=topology.nodes=1 ");
  EXPECT_EQ(flags(2), sizes +
                          "2 parallel.etp=1 set=topology.nodes=1 set=topology.node.gpus=2 "
                          "set=topology.node.nics.count=2 ");
}

/// Plans as "prompt pool decode pool" on four GPUs: "3a 1b" is 3 instances of kind a, then 1 of b.
TEST(ServingCandidates, PlansFillTheClusterWithOnePoolOrTwo) {
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "a", {}, ""},
                                                  {2, 2, 2, 1, "b", {}, ""}};
  FormulaRates rates(
      [](std::size_t kind, double n) { return (kind == 0 ? 0.04 : 0.03) + 0.001 * n; },
      [](std::size_t kind) { return kind == 0 ? 1000.0 : 3000.0; });
  std::vector<RoughPlan> plans = rough_plans(kinds, {100, 10, 8, 4}, 0, rates);
  EXPECT_TRUE(std::ranges::is_sorted(plans, std::greater<>(), &RoughPlan::rate));
  std::vector<std::string> words;
  for (const auto& [plan, rate, tpot, keeps_up] : plans) {
    std::string text = std::to_string(plan.prompt_instances) + "ab"[plan.prompts];
    if (plan.decode_instances > 0) {
      text += " " + std::to_string(plan.decode_instances) + "ab"[plan.decode];
    }
    words.push_back(text);
  }
  EXPECT_THAT(words, testing::UnorderedElementsAre("4a", "2b", "3a 1a", "2a 2a", "1a 3a", "2a 1b",
                                                   "1b 1a", "1b 2a", "1b 1b"));
  plans = rough_plans(kinds, {100, 10, 8, 4}, 1e-9, rates);
  EXPECT_TRUE(std::ranges::is_sorted(plans, {}, &RoughPlan::tpot)) << "none is within it";
}

TEST(ServingCandidates, DifferInSomeOfTheirChoices) {
  const std::vector<ServingInstanceKind> kinds = {
      {8, 8, 8, 1, "a", {}, ""}, {8, 8, 8, 1, "a", {}, " dcp2"}, {8, 8, 1, 8, "b", {}, ""},
      {8, 1, 8, 1, "b", {}, ""}, {4, 4, 4, 1, "a", {}, ""},
  };
  const auto apart = [&](const ServingPlan& a, const ServingPlan& b) {
    return choices_apart(kinds, a, b);
  };
  EXPECT_EQ(apart({0, 0, 2, 0}, {0, 0, 2, 0}), 0);
  EXPECT_EQ(apart({0, 0, 2, 0}, {1, 1, 2, 0}), 1) << "dcp";
  EXPECT_EQ(apart({0, 0, 2, 0}, {2, 2, 2, 0}), 1) << "degrees of experts, with their policy";
  EXPECT_EQ(apart({1, 1, 2, 0}, {2, 2, 2, 0}), 2);
  EXPECT_EQ(apart({0, 0, 2, 0}, {3, 3, 2, 0}), 2) << "tp and policy";
  EXPECT_EQ(apart({0, 0, 1, 1}, {0, 1, 1, 1}), 1) << "of the decode pool";
  EXPECT_GT(apart({0, 0, 2, 0}, {4, 4, 2, 0}), 2);
  EXPECT_GT(apart({0, 0, 2, 0}, {0, 0, 1, 0}), 2);
}

TEST(ServingCandidates, FewerInstancesAreOneLessOfEachPool) {
  EXPECT_THAT(with_fewer_instances({0, 1, 3, 2}),
              testing::ElementsAre(ServingPlan{0, 1, 2, 2}, ServingPlan{0, 1, 3, 1}));
  EXPECT_THAT(with_fewer_instances({0, 0, 2, 0}), testing::ElementsAre(ServingPlan{0, 0, 1, 0}));
  EXPECT_THAT(with_fewer_instances({0, 0, 1, 0}), testing::IsEmpty());
}

TEST(ServingCandidates, FewRequestsAreAtLeastOnePerInstance) {
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "a", {}, ""}};
  FormulaRates rates([](std::size_t, double n) { return 0.01 * n; },
                     [](std::size_t) { return 1000.0; });
  const auto plans = rough_plans(kinds, {100, 10, 1, 4}, 0, rates);
  ASSERT_EQ(plans.size(), 4U);
  const auto one_pool =
      std::ranges::find(plans, 0, [](const RoughPlan& p) { return p.plan.decode_instances; });
  ASSERT_NE(one_pool, plans.end());
  // A prompt of 0.1 s and ten passes of 10 ms; four instances have each a request.
  EXPECT_NEAR(one_pool->tpot, 0.2 / 10, 1e-12);
  EXPECT_NEAR(one_pool->rate, 4 / 0.2 * 10 / 4, 1e-9);
  for (const RoughPlan& plan : plans) {
    if (plan.plan.decode_instances == 0) continue;
    EXPECT_NEAR(plan.tpot, 0.01, 1e-12);
  }
}

/// One kind of one GPU: a prompt takes 0.1 s, a pass of n sequences 10 ms + n x 1 ms.
std::vector<RoughPlan> plans_for(double arrivals, double most_tpot = 0) {
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "a", {}, ""}};
  FormulaRates rates([](std::size_t, double n) { return 0.01 + 0.001 * n; },
                     [](std::size_t) { return 1000.0; });
  return rough_plans(kinds, {100, 10, 1000, 4, arrivals}, most_tpot, rates);
}

TEST(ServingCandidates, ArrivalsHaveAsManyInFlightAsComeWhileOneIsServed) {
  const auto plans = plans_for(4);
  const auto two = std::ranges::find(plans, ServingPlan{0, 0, 2, 0}, &RoughPlan::plan);
  ASSERT_NE(two, plans.end());
  // Two per second and instance: n = 2 (0.1 n + 10 (0.01 + 0.001 n)), so n = 0.2 / 0.78, at
  // least 1.
  EXPECT_NEAR(two->tpot, (0.1 + 10 * 0.011) / 10, 1e-9);
  const auto one = std::ranges::find(plans, ServingPlan{0, 0, 1, 0}, &RoughPlan::plan);
  // n = 4 (0.1 n + 0.1 + 0.01 n), so n = 0.4 / 0.56.
  EXPECT_NEAR(one->tpot, (0.1 + 10 * 0.011) / 10, 1e-9);
  EXPECT_NEAR(one->rate, 4 * 10, 1e-9) << "tokens of all arrivals, on one GPU";
  const auto busy = plans_for(8);
  const auto all = std::ranges::find(busy, ServingPlan{0, 0, 1, 0}, &RoughPlan::plan);
  const double n = 0.8 / (1 - 0.88);
  EXPECT_NEAR(all->tpot, n / 8 / 10, 0.01 * n / 80);
}

TEST(ServingCandidates, TheFewestGpusThatKeepUpWithArrivalsComeFirst) {
  for (const double arrivals : {4.0, 15.0, 30.0}) {
    const auto plans = plans_for(arrivals);
    const RoughPlan& best = plans.front();
    const int used = best.plan.prompt_instances + best.plan.decode_instances;
    EXPECT_EQ(used, arrivals < 9 ? 1 : arrivals < 18 ? 2 : 4) << arrivals;
    EXPECT_TRUE(best.keeps_up);
    EXPECT_EQ(plans.back().keeps_up, arrivals < 9);
  }
  const ServingPlan within = plans_for(8, 0.03).front().plan;
  EXPECT_EQ(within.prompt_instances + within.decode_instances, 2) << "one takes 0.083 s per token";
}

TEST(ServingCandidates, ArrivalsNeedFewPromptsApart) {
  for (const RoughPlan& plan : plans_for(4)) {
    if (plan.plan.decode_instances > 0) {
      EXPECT_EQ(plan.plan.prompt_instances, 1);
    }
  }
}

TEST(ServingCandidates, OtherRanksWaitForPromptsThatComeOneByOne) {
  const std::vector<ServingInstanceKind> kinds = {{4, 1, 4, 1, "spread", {}, ""},
                                                  {4, 4, 4, 1, "group", {}, ""}};
  FormulaRates rates([](std::size_t, double) { return 0.01; }, [](std::size_t) { return 1000.0; });
  const auto plans = rough_plans(kinds, {100, 10, 1000, 4, 1}, 0, rates);
  ASSERT_EQ(plans.size(), 2U);
  EXPECT_EQ(plans.front().plan.prompts, 1U) << "a tensor group computes each prompt with all GPUs";
  EXPECT_NEAR(plans.front().tpot, (0.1 + 0.1) / 10, 1e-9);
  EXPECT_NEAR(plans.back().tpot, (0.4 + 0.1) / 10, 1e-9);
}

}  // namespace
}  // namespace moesim
