// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/serving_candidates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

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
  EXPECT_EQ((ServingInstanceKind{16, 1, 16, 1, "deepep", {}}.words()), "tp1 ep16 deepep");
  EXPECT_EQ((ServingInstanceKind{4, 4, 1, 4, "of/mine.yaml", {}}.words()),
            "tp4 ep1 etp4 mine.yaml");
}

TEST(ServingCandidates, KindsFillPartsOfTheCluster) {
  const auto kinds = instance_kinds({{"low", false}, {"all", true}}, 2, 4);
  std::set<std::string> words;
  for (const ServingInstanceKind& kind : kinds) {
    EXPECT_EQ(8 % kind.gpus, 0);
    EXPECT_TRUE(kind.ep == kind.gpus || (kind.ep == 1 && kind.etp == kind.gpus));
    EXPECT_LE(kind.tp, 4) << "tensor groups stay in a node";
    EXPECT_TRUE(words.insert(std::to_string(kind.gpus) + kind.words()).second);
  }
  // 8 GPUs: tp1 by both policies, tp2 and tp4 by the one that gathers. 4: tp1 twice, tp2, tp4 with
  // whole and with cut experts. 2: tp1 twice, tp2 twice. 1: one.
  EXPECT_EQ(kinds.size(), 4U + 5 + 4 + 1);
  const auto half = std::ranges::find(kinds, 2, &ServingInstanceKind::gpus);
  std::vector<std::string> changes;
  for (const Override& flag : half->flags) {
    if (flag.path == "set") changes.push_back(flag.value);
  }
  EXPECT_THAT(changes, testing::ElementsAre("topology.nodes=1", "topology.node.gpus=2",
                                            "topology.node.nics.count=2"));
}

/// One kind of 2 GPUs: a pass of n sequences takes 10 ms + n x 1 ms, a prompt 1 ms per 10 tokens.
TEST(ServingCandidates, OnePoolTakesPromptsAndPasses) {
  const std::vector<ServingInstanceKind> kinds = {{2, 2, 2, 1, "all", {}}};
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
  const std::vector<ServingInstanceKind> kinds = {{2, 2, 2, 1, "all", {}}};
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
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "all", {}}, {4, 4, 4, 1, "all", {}}};
  FormulaRates rates([](std::size_t kind, double n) { return kind == 0 ? 0.1 : 0.02 + 0.001 * n; },
                     [](std::size_t) { return 1e5; });
  const auto plans = rough_plans(kinds, {100, 100, 16, 4}, 0.05, rates);
  EXPECT_EQ(plans.front().plan.prompts, 1U);
  EXPECT_LE(plans.front().tpot, 0.05);
  for (std::size_t i = 1; i < plans.size(); ++i) EXPECT_GT(plans[i].tpot, 0.05);
}

}  // namespace
}  // namespace moesim
