// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/deployment/check_deployment.h"

#include <gmock/gmock.h>

#include "tests/error_of.h"
#include "tests/serving/simple_prices.h"

namespace moesim::testing {
namespace {

using ::testing::HasSubstr;

std::string refusal_of(const Deployment& deployment) {
  return error_of([&] { check_deployment(deployment, at_once({{5, 2}})); });
}

/// Two instances of four ranks.
Deployment two_of_four(StepPrices& prices) {
  EngineOptions engine;
  engine.ranks = 4;
  Deployment deployment = one_engine(engine, prices);
  deployment.pool.instances = 2;
  return deployment;
}

TEST(DeploymentChecks, OnlyRanksThatThereAreAreLost) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = two_of_four(prices);
  deployment.losses = {{Seconds(1), 1, 2, Seconds(0), Seconds(9), 2}};
  EXPECT_EQ(refusal_of(deployment), "");
  deployment.losses[0].rank = 3;
  EXPECT_THAT(refusal_of(deployment), HasSubstr("ranks 3 to 4 of instance 1 cannot be lost: there "
                                                "are 2 instances of 4 ranks"));
  deployment.losses = {{Seconds(1), 2, 3, Seconds(0), Seconds(9)}};
  EXPECT_THAT(refusal_of(deployment), HasSubstr("rank 3 of instance 2 cannot be lost"));
  deployment.losses[0].decodes = true;
  EXPECT_THAT(refusal_of(deployment), HasSubstr("all instances do both"));
}

TEST(DeploymentChecks, SomethingIsDoneBetweenLosses) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = two_of_four(prices);
  // Two parts of two ranks: twice 3 s each.
  deployment.loss_rate = LossRate{Seconds(12), Seconds(1), Seconds(2), 2};
  EXPECT_EQ(refusal_of(deployment), "");
  deployment.loss_rate->between = Seconds(11);
  EXPECT_THAT(refusal_of(deployment),
              HasSubstr("loses ranks every 5.5 s, and they are gone for 3 s"));
  deployment.loss_rate->ranks = 3;
  EXPECT_THAT(refusal_of(deployment), HasSubstr("3 ranks are lost at once, which do not divide the "
                                                "4 of an instance\nhint: ranks: 2; "));
}

TEST(DeploymentChecks, ABlockFitsIntoTheCache) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = two_of_four(prices);
  deployment.pool.engine.kv.capacity = 64;
  deployment.pool.engine.kv.block = 64;
  EXPECT_EQ(refusal_of(deployment), "");
  deployment.pool.engine.kv.block = 65;
  EXPECT_THAT(refusal_of(deployment),
              HasSubstr("a block of 65 tokens is larger than the KV cache "
                        "of a rank, which holds 64\nhint: kv: {block: 16}"));
}

TEST(DeploymentChecks, APassHoldsASequenceWithItsDrafts) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = two_of_four(prices);
  deployment.pool.engine.drafts = 1;
  deployment.pool.engine.gained = {0.5, 0.5};
  deployment.pool.engine.max_tokens = 2;
  EXPECT_EQ(refusal_of(deployment), "");
  deployment.pool.engine.max_tokens = 1;
  EXPECT_THAT(refusal_of(deployment),
              HasSubstr("a pass of 1 token holds no sequence with 1 draft"));
  deployment.pool.engine.gained = {0.5, 0.4};
  EXPECT_THAT(refusal_of(deployment), HasSubstr("sum to 0.9, not to 1"));
  deployment.decode = deployment.pool;
  deployment.pool.engine.gained = {0.5, 0.5};
  deployment.pool.engine.max_tokens = 2;
  EXPECT_THAT(refusal_of(deployment), HasSubstr("sum to 0.9, not to 1")) << "of those that decode";
}

}  // namespace
}  // namespace moesim::testing
