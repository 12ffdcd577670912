// SPDX-License-Identifier: Apache-2.0
// Ranks that are lost while an engine answers.
#include <gmock/gmock.h>

#include <cmath>

#include "sim/base/error.h"
#include "tests/error_of.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;
using ::testing::HasSubstr;

TEST(LostRanks, RanksThatDoNotComeBackAreNamed) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = one_engine({}, prices);
  deployment.losses = {{Seconds(0.5), 0, 0, Seconds(1), {}}};
  EXPECT_THROW(
      try {
        run_serving(deployment, at_once({{10, 5}}));
      } catch (const Error& e) {
        EXPECT_EQ(e.diagnostics().front().hint, "say back: 10 min");
        throw;
      },
      Error);
}

TEST(LostRanks, AnInstanceWithoutRanksLeavesItsRequestsToTheOthers) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.plans_ahead = true;  // so that some wait where its scheduler has not looked yet
  Deployment deployment = one_engine(engine, prices);
  deployment.pool.instances = 2;
  deployment.losses = {{Seconds(0.5), 1, 0, Seconds(0.1), {}}};
  RequestLog log = at_once({{10, 3}, {10, 3}, {10, 3}, {10, 3}, {10, 3}});
  for (std::size_t i = 2; i < 5; ++i) log.requests[i].arrival = Seconds(0.2 * double(i));
  const ServingRun run = run_serving(deployment, log);
  for (const RequestOutcome& request : run.requests) EXPECT_EQ(request.finishes, 1);
  EXPECT_EQ(run.instances[1].counts.passes, 0) << "its only pass was broken";
  deployment.losses.push_back({Seconds(0.5), 0, 0, Seconds(0.1), {}});
  EXPECT_THROW(run_serving(deployment, log), Error) << "none is up";
}

TEST(LostRanks, KeysThatComeToALostInstanceAreComputedAgainOnAnother) {
  FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
  Deployment deployment = one_engine({}, prompts);
  deployment.decode = ServingPool{{}, 2, &decodes};
  LinkTransfers links({growing_by(1), BytesPerSecond(1e9), Seconds(5)}, 1, 2);
  deployment.transfers = &links;
  // The first pass of prompts ends within two seconds; their keys are there after five more.
  deployment.losses = {{Seconds(3), 0, 0, Seconds(0.1), {}, 1, true}};
  const ServingRun run = run_serving(deployment, at_once({{100, 3}, {100, 3}}));
  EXPECT_EQ(run.broken_transfers, 1);
  EXPECT_EQ(run.broken_tokens, 100);
  EXPECT_EQ(run.instances[1].counts.passes, 0);
  for (const RequestOutcome& request : run.requests) EXPECT_EQ(request.finishes, 1);
  ASSERT_FALSE(decodes.asked.empty());
  EXPECT_THAT(decodes.asked.front().ranks[0], ::testing::Contains(SequenceStep{0, 101, 1, 0}));
}

TEST(LostRanks, LossesOfLostRanksAreCountedApart) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 2;
  Deployment deployment = one_engine(engine, prices);
  deployment.losses = {{Seconds(0.5), 0, 1, Seconds(1), Seconds(100)},
                       {Seconds(0.7), 0, 1, Seconds(1), Seconds(100)}};
  const ServingRun run = run_serving(deployment, at_once({{10, 5}}));
  EXPECT_EQ(run.instances[0].counts.losses, 1);
  EXPECT_EQ(run.instances[0].counts.lost_in_vain, 1);
}

TEST(LostRanks, ALostRankCostsItsTokensAndNoRequest) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 2;
  Deployment deployment = one_engine(engine, prices);
  deployment.losses = {{Seconds(1.5), 0, 1, Seconds(2), Seconds(4)}};
  RequestLog log = at_once({{10, 5}, {10, 3}, {10, 1}});
  log.requests[2].arrival = Seconds(6);
  const ServingRun run = run_serving(deployment, log);
  // The first pass ends at 1.02; the second is lost; at 3.5 the first rank continues with both.
  ASSERT_GE(prices.asked.size(), 3U);
  EXPECT_THAT(prices.asked[2].ranks[0],
              ::testing::ElementsAre(SequenceStep{10, 1, 1, 0}, SequenceStep{0, 11, 1, 1}));
  EXPECT_TRUE(prices.asked[2].ranks[1].empty());
  EXPECT_NEAR(run.instances[0].counts.lost.value, 0.48 + 2, tiny);
  EXPECT_EQ(run.instances[0].ranks.lost_tokens, 10);
  for (const RequestOutcome& request : run.requests) {
    EXPECT_EQ(request.emitted, request.output);
    EXPECT_EQ(request.finishes, 1);
  }
  EXPECT_NEAR(run.requests[1].first.value, 1.02, tiny) << "the first token was sent before";
}

TEST(LostRanks, ALostNodeLeavesItsRequestsToTheOthers) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 4;
  Deployment deployment = one_engine(engine, prices);
  // Ranks 2 and 3 are gone from 1.5 on, before the second pass ends.
  deployment.losses = {{Seconds(1.5), 0, 2, Seconds(2), Seconds(60), 2}};
  const ServingRun run = run_serving(deployment, at_once({{10, 3}, {10, 3}, {10, 3}, {10, 3}}));
  ASSERT_GE(prices.asked.size(), 3U);
  EXPECT_TRUE(prices.asked[2].ranks[2].empty());
  EXPECT_TRUE(prices.asked[2].ranks[3].empty());
  const InstanceCounts& counts = run.instances[0].counts;
  EXPECT_EQ(counts.losses, 1);
  EXPECT_EQ(counts.restarted, 2);
  EXPECT_EQ(counts.lost_kv, 20);
  EXPECT_NEAR(counts.lost.value, 0.46 + 2, tiny) << "all at once: one recovery";
  for (const RequestOutcome& request : run.requests) {
    EXPECT_EQ(request.emitted, request.output);
    EXPECT_EQ(request.finishes, 1);
  }
}

TEST(LostRanks, RequestsWaitForTheOnlyRank) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = one_engine({}, prices);
  deployment.losses = {{Seconds(1.5), 0, 0, Seconds(1), Seconds(10)}};
  const ServingRun run = run_serving(deployment, at_once({{10, 2}}));
  // The prompt and the first token are computed again in one pass of eleven tokens.
  EXPECT_NEAR(run.requests[0].finish.value, 11.5 + 1.02, 0.01);
  EXPECT_EQ(run.requests[0].finishes, 1);
}

/// Ranks that are left compute the experts of all.
/// Two ranks with room for ten blocks; one of them is lost after the first pass.
ServingRun run_beside_experts(Bytes experts) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 2;
  engine.kv.capacity = 160;
  engine.experts = {experts, 2, 2, Bytes(1), 1, 80};
  Deployment deployment = one_engine(engine, prices);
  deployment.losses = {{Seconds(1.5), 0, 1, Seconds(2), Seconds(600)}};
  return run_serving(deployment, at_once({{60, 10}, {60, 10}}));
}

TEST(LostRanks, ExpertsOfLostRanksTakeRoomForKeysAndValues) {
  const ServingRun none = run_beside_experts(Bytes(0)), some = run_beside_experts(Bytes(100));
  EXPECT_EQ(none.instances[0].counts.kv_left, no_limit);
  EXPECT_EQ(some.instances[0].counts.kv_left, 160 - 50);
  EXPECT_GT(some.end, none.end) << "the two no longer fit together";
  EXPECT_EQ(some.requests[0].finishes + some.requests[1].finishes, 2);
  EXPECT_EQ(run_beside_experts(Bytes(160)).instances[0].counts.kv_left, 80);
  EXPECT_THAT(error_of([] { run_beside_experts(Bytes(162)); }),
              HasSubstr("1 of 2 ranks are lost: experts take 81 B more of each GPU that is left, "
                        "which has 160 B for keys and values; a request needs 80 B"));
}

TEST(LostRanks, ExpertsWithCopiesOnOtherRanksTakeNone) {
  EXPECT_EQ((ServedExperts{Bytes(80), 16, 8, Bytes(1)}.more(16, 8)), Bytes(0));
  EXPECT_EQ((ServedExperts{Bytes(80), 16, 8, Bytes(1)}.more(16, 12)), Bytes(10));
  EXPECT_EQ((ServedExperts{Bytes(80), 16, 16, Bytes(1)}.more(16, 8)), Bytes(5));
  EXPECT_EQ((ServedExperts{Bytes(80), 16, 16, Bytes(1), 0.5}.tokens_left(100, 16, 8)), 97);
}

TEST(LostRanks, OtherRanksHaveTheExpertsOfLostOnes) {
  struct Halves final : StepPrices {
    StepPrice price(const ServingBatch&, const PassKind&) override {
      StepPrice half{Seconds(1), {}};
      half.parts[static_cast<std::size_t>(PassPart::experts)] = Seconds(0.5);
      return half;
    }
  } prices;
  EngineOptions engine;
  engine.ranks = 4;
  Deployment deployment;
  deployment.pool = {engine, 1, &prices};
  deployment.losses = {{Seconds(0), 0, 2, Seconds(0), Seconds(1.1), 2}};
  const ServingRun run = run_serving(deployment, at_once({{10, 3}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.5, tiny);
  EXPECT_NEAR(run.requests[0].finish.value, 1.5 + 2, tiny) << "ranks are back";
  deployment.pool.engine.experts_apart = true;
  EXPECT_NEAR(run_serving(deployment, at_once({{10, 3}})).requests[0].finish.value, 3, tiny);
}

/// A prompt's keys and values are on their way when their rank is lost.
TEST(LostRanks, BrokenTransfersAreComputedAgain) {
  FormulaPrices prices = second_per_pass();
  struct Slow final : KvTransfers {
    Seconds arrival(Seconds now, std::int64_t, int, int) override { return now + Seconds(5); }
  } transfers;
  for (const double at : {0.5, 3.0, 30.0}) {
    Deployment deployment = one_engine({}, prices);
    deployment.decode = deployment.pool;
    deployment.transfers = &transfers;
    deployment.losses = {{Seconds(at), 0, 0, Seconds(0), Seconds(1)}};
    const ServingRun run = run_serving(deployment, at_once({{100, 4}, {50, 20}}));
    const bool broken = at == 3.0;
    EXPECT_EQ(run.broken_transfers, broken ? 2 : 0) << at;
    EXPECT_EQ(run.broken_tokens, broken ? 150 : 0) << at;
    const RankCounts& decoding = run.instances[1].ranks;
    EXPECT_EQ(decoding.prompt_tokens, broken ? 152 : 0) << at;
    for (const RequestOutcome& request : run.requests) {
      EXPECT_EQ(request.emitted, request.output);
      EXPECT_EQ(request.finishes, 1);
    }
  }
}

TEST(LostRanks, LossesComeAtTheirRate) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 8;
  Deployment deployment = one_engine(engine, prices);
  deployment.pool.instances = 2;
  deployment.loss_rate = LossRate{Seconds(4000), Seconds(1), Seconds(50), 4, 7};
  RequestLog log = at_once({});
  for (int i = 0; i < 2000; ++i) log.requests.push_back({Seconds(20.0 * i), 10, 12});
  const ServingRun run = run_serving(deployment, log);
  std::int64_t losses = 0;
  for (const InstanceSummary& instance : run.instances) losses += instance.counts.losses;
  // Four parts of four ranks: 40 losses in 40,000 s, but for parts that are gone.
  EXPECT_NEAR(static_cast<double>(losses), run.end.value / 1000, 3 * std::sqrt(40.0));
  for (const RequestOutcome& request : run.requests) EXPECT_EQ(request.finishes, 1);
  deployment.loss_rate->ranks = 3;
  EXPECT_THROW(run_serving(deployment, log), Error);
  deployment.loss_rate = LossRate{Seconds(100), Seconds(1), Seconds(50), 4, 7};
  EXPECT_THROW(run_serving(deployment, log), Error) << "nothing would get done";
}

}  // namespace
}  // namespace moesim
