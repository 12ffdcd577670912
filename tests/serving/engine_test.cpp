// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "sim/serving/deployment/serving_metrics.h"
#include "sim/serving/engine/instance.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

TEST(Engines, ABatchOfOneIsItsPassesInARow) {
  FormulaPrices prices = second_per_pass();
  const ServingRun run = run_serving(one_engine({}, prices), at_once({{100, 4}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.1, tiny);
  EXPECT_NEAR(run.requests[0].finish.value, 1.1 + 3 * 1.001, tiny);
  ASSERT_EQ(prices.asked.size(), 4U);
  EXPECT_THAT(prices.asked[0].ranks[0], ElementsAre(SequenceStep{0, 100, 1, 0}));
  EXPECT_THAT(prices.asked[3].ranks[0], ElementsAre(SequenceStep{102, 1, 1, 0}));
}

TEST(Engines, ARunOfOneStepIsTheStep) {
  FormulaPrices prices = second_per_pass();
  const ServingRun run = run_serving(one_engine({}, prices), at_once({{7, 1}, {9, 1}}));
  const ServingBatch step{{{{0, 7, 1, 0}, {0, 9, 1, 1}}}};
  EXPECT_THAT(prices.asked, ElementsAre(step));
  EXPECT_EQ(run.end, second_per_pass().price(step, {}).time);
}

TEST(Engines, EqualRequestsAreTheAnalyticFormula) {
  constexpr double n = 5, input = 300, output = 40;
  FormulaPrices prices([](const ServingBatch& batch) {
    double context = 0;
    for (const SequenceStep& step : batch.ranks[0]) context += static_cast<double>(step.context);
    return 0.01 + 1e-4 * tokens_in(batch) + 1e-6 * context;
  });
  const ServingRun run = run_serving(
      one_engine({}, prices), at_once({{300, 40}, {300, 40}, {300, 40}, {300, 40}, {300, 40}}));
  for (const RequestOutcome& request : run.requests) {
    EXPECT_NEAR(request.first.value, 0.01 + 1e-4 * n * input, tiny);
    const double steps = output - 1, mean_context = input + (steps - 1) / 2;
    EXPECT_NEAR((request.finish - request.first).value,
                steps * (0.01 + 1e-4 * n + 1e-6 * n * mean_context), tiny);
  }
}

TEST(Engines, PromptsAreCutIntoChunksAndShareWhatIsLeft) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.max_tokens = 64;
  const ServingRun run = run_serving(one_engine(engine, prices), at_once({{100, 2}, {10, 2}}));
  EXPECT_THAT(prices.asked[0].ranks[0], ElementsAre(SequenceStep{0, 64, 1, 0}));
  EXPECT_THAT(prices.asked[1].ranks[0],
              ElementsAre(SequenceStep{64, 36, 1, 0}, SequenceStep{0, 10, 1, 1}));
  EXPECT_NEAR(run.requests[1].first.value, 1.064 + 1.046, tiny);

  prices.asked.clear();
  engine.chunked_prefill = false;
  engine.max_tokens = 105;
  run_serving(one_engine(engine, prices), at_once({{100, 2}, {10, 2}}));
  EXPECT_EQ(prices.asked[0].ranks[0].size(), 1U) << "the second prompt does not fit whole";
}

/// The passes of two requests, the second of which comes during the second pass.
std::vector<ServingBatch> two_passes(const EngineOptions& engine) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{10, 5}, {20, 2}});
  log.requests[1].arrival = Seconds(1.5);
  run_serving(one_engine(engine, prices), log);
  return prices.asked;
}

TEST(Engines, PromptsShareAPassWithAnswersOrHaveTheirOwn) {
  EngineOptions engine;
  EXPECT_THAT(two_passes(engine)[2].ranks[0],
              ElementsAre(SequenceStep{11, 1, 1, 0}, SequenceStep{0, 20, 1, 1}));
  engine.mixed = false;
  const auto passes = two_passes(engine);
  EXPECT_THAT(passes[2].ranks[0], ElementsAre(SequenceStep{0, 20, 1, 1}));
  EXPECT_THAT(passes[3].ranks[0],
              ElementsAre(SequenceStep{11, 1, 1, 0}, SequenceStep{20, 1, 1, 1}));
}

TEST(Engines, PromptsComeAtTheirCadence) {
  EngineOptions engine;
  engine.mixed = false;
  engine.cadence = 3;
  const auto passes = two_passes(engine);
  EXPECT_THAT(passes[3].ranks[0], ElementsAre(SequenceStep{12, 1, 1, 0}));
  EXPECT_THAT(passes[4].ranks[0], ElementsAre(SequenceStep{0, 20, 1, 1}));
}

/// Two requests of 16 tokens of prompt and 20 of answer: three blocks of 16 each in the end.
ServingRun tight_run(ReserveOptions reserve) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.kv.capacity = 64;
  engine.kv.reserve = reserve;
  return run_serving(one_engine(engine, prices), at_once({{16, 20}, {16, 20}}));
}

TEST(Engines, TheLastOneIsPreemptedAndComputedAgain) {
  const ServingRun run = tight_run({});
  const RankCounts& counts = run.instances[0].ranks;
  // When both have 32 tokens, all four blocks are full: the second leaves, and returns with its 33
  // known tokens when the first has its last 3.
  EXPECT_EQ(counts.preemptions, 1);
  EXPECT_EQ(counts.lost_tokens, 32);
  EXPECT_EQ(counts.prompt_tokens, 16 + 16 + 33);
  EXPECT_EQ(counts.decode_tokens, 19 + 18);
  EXPECT_EQ(run.requests[1].emitted, 20);
  EXPECT_EQ(run.instances[0].kv_tokens_most, 64);
}

TEST(Engines, WhatIsReservedForAnswersIsNeverPreempted) {
  const ServingRun run = tight_run({1, 1, 0});
  EXPECT_EQ(run.instances[0].ranks.preemptions, 0);
  EXPECT_GT(run.requests[1].first, run.requests[0].finish) << "it waits for the first to end";
}

TEST(Engines, PrefixesAreComputedOnce) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{64, 1}, {70, 1}, {64, 1}});
  log.requests[1].arrival = log.requests[2].arrival = Seconds(5);
  log.prefix_tokens = 32;
  log.prefixes = {{1, 2}, {1, 3}, {1, 2}};
  const ServingRun run = run_serving(one_engine({}, prices), log);
  EXPECT_THAT(prices.asked[1].ranks[0],
              ElementsAre(SequenceStep{32, 38, 1, 1}, SequenceStep{48, 16, 1, 2}))
      << "the last block of a cached prompt is computed, of 16 tokens";
  EXPECT_EQ(run.instances[0].ranks.cached_tokens, 32 + 48);
  EXPECT_EQ(run.instances[0].ranks.asked_tokens, 64 + 70 + 64);
  EXPECT_EQ(run.instances[0].ranks.hit_tokens, 32 + 48);
}

TEST(Engines, WhatAPreemptedSequenceFindsOfItselfIsNoHit) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.kv.capacity = 64;
  RequestLog log = at_once({{16, 20}, {16, 20}});
  log.prefix_tokens = 16;
  log.prefixes = {{1}, {2}};
  const RankCounts counts = run_serving(one_engine(engine, prices), log).instances[0].ranks;
  EXPECT_EQ(counts.preemptions, 1);
  EXPECT_EQ(counts.asked_tokens, 32);
  EXPECT_EQ(counts.hit_tokens, 0);
}

TEST(Engines, TheFullestRankSaysHowMuchRoomIsLeft) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 4;
  engine.kv.capacity = 128;
  const ServingRun run = run_serving(one_engine(engine, prices), at_once({{100, 2}}));
  EXPECT_EQ(run.instances[0].kv_tokens_most, 112);
  EXPECT_EQ(serving_metrics(run, {}, 0, 4).load.kv_most, 112.0 / 128);
  EXPECT_LT(serving_metrics(run, {}, 0, 4).load.kv_mean, 0.25) << "of four ranks one has some";
}

/// Tokens per rank of the last pass, with three sequences on the first rank and one on the second.
std::vector<double> padded_ranks(EngineOptions engine, std::size_t requests) {
  FormulaPrices prices = second_per_pass();
  engine.ranks = 2;
  RequestLog log = at_once({{5, 3}, {5, 2}, {5, 3}, {5, 2}, {5, 3}, {5, 3}});
  log.requests.resize(requests);
  run_serving(one_engine(engine, prices), log);
  std::vector<double> tokens;
  for (const auto& steps : prices.asked.back().ranks) tokens.push_back(tokens_in({{steps}}));
  return tokens;
}

TEST(Engines, DecodePassesArePaddedToTheSizesOfTheirGraphs) {
  EngineOptions engine;
  EXPECT_THAT(padded_ranks(engine, 6), ElementsAre(3, 1));
  engine.graph_sizes = {1, 2, 4, 8};
  EXPECT_THAT(padded_ranks(engine, 6), ElementsAre(4, 4));
  engine.graphs_alike = false;
  EXPECT_THAT(padded_ranks(engine, 6), ElementsAre(4, 1));
  engine.graph_sizes = {2};
  EXPECT_THAT(padded_ranks(engine, 6), ElementsAre(3, 2)) << "no graph is large enough for three";
  engine.graphs_alike = true;
  EXPECT_THAT(padded_ranks(engine, 6), ElementsAre(3, 1));
}

TEST(Engines, IdleRanksJoinByOneToken) {
  EngineOptions engine;
  EXPECT_THAT(padded_ranks(engine, 1), ElementsAre(1, 1));
  FormulaPrices prices = second_per_pass();
  engine.ranks = 2;
  const ServingRun run = run_serving(one_engine(engine, prices), at_once({{10, 3}}));
  EXPECT_EQ(run.instances[0].counts.padding, 3) << "of a prompt and two answers";
  engine.idle_passes = false;
  EXPECT_THAT(padded_ranks(engine, 1), ElementsAre(1, 0));
  engine.graph_sizes = {4};
  EXPECT_THAT(padded_ranks(engine, 1), ElementsAre(4, 0)) << "nothing is not padded";
}

TEST(Engines, DraftsGiveSeveralTokensPerPass) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.drafts = 2;
  engine.gained = {0, 0, 1};
  ServingRun run = run_serving(one_engine(engine, prices), at_once({{10, 6}}));
  EXPECT_NEAR(run.requests[0].finish.value, 1.01 + 2 * 1.003, tiny) << "1, 3 and the last 2";
  EXPECT_THAT(prices.asked[2].ranks[0], ElementsAre(SequenceStep{13, 3, 1, 0}));
  engine.ranks = 2;
  run = run_serving(one_engine(engine, prices), at_once({{10, 4}}));
  EXPECT_EQ(run.instances[0].counts.padding, 1 + 3) << "an idle rank has drafts, too";
  engine.ranks = 1;

  engine.drafts = 1;
  engine.gained = {0.25, 0.75};
  run = run_serving(one_engine(engine, prices), at_once({{10, 20001}}));
  const double passes = static_cast<double>(run.instances[0].counts.passes - 1);
  EXPECT_NEAR(20000 / passes, 1.75, 0.02);
}

TEST(Engines, MovingExpertsStallsOrSlowsPasses) {
  FormulaPrices prices([](const ServingBatch&) { return 1.0; });
  EngineOptions engine;
  engine.rebalance = {2, Seconds(5), {}, 0};
  ServingRun run = run_serving(one_engine(engine, prices), at_once({{10, 5}}));
  EXPECT_NEAR(run.end.value, 5 + 2 * 5, tiny) << "of five passes the second and fourth";
  EXPECT_EQ(run.instances[0].counts.rebalances, 2);
  EXPECT_NEAR(run.instances[0].counts.stalled.value, 10, tiny);
  // Behind passes: 2.5 s from the end of the third pass on, in which three passes begin.
  engine.rebalance = {3, {}, Seconds(2.5), 0.1};
  run = run_serving(one_engine(engine, prices), at_once({{10, 6}}));
  EXPECT_NEAR(run.end.value, 6 + 0.3, tiny);
  run = run_serving(one_engine(engine, prices), at_once({{10, 4}}));
  EXPECT_NEAR(run.end.value, 4 + 0.1, tiny) << "the first three are as fast as ever";
}

/// Two requests are of a recorded step, and each step that a balancer has seen saves 0.1 s.
struct StepwisePrices : StepPrices {
  StepPrice price(const ServingBatch&, const PassKind& kind) override {
    asked.push_back(kind);
    return {Seconds(1 - 0.1 * static_cast<double>(kind.balanced)), {}};
  }
  RecordedStep step_of(std::int64_t request) const override {
    return {request / 2, request / 2 + 1};
  }
  Rebalancing moving(std::int64_t before, std::int64_t after) override {
    return {Seconds(2) * static_cast<double>(after - before), after != before};
  }
  std::vector<PassKind> asked;
};

TEST(Engines, ABalancerKnowsTheStepsThatHaveBegun) {
  StepwisePrices prices;
  EngineOptions engine;
  engine.max_sequences = 2;
  engine.rebalance.interval = 2;
  ServingRun run =
      run_serving(one_engine(engine, prices), at_once({{1, 3}, {1, 3}, {1, 2}, {1, 2}}));
  const std::vector<PassKind> passes = {
      {false, 0, 0}, {false, 0, 0}, {false, 0, 1}, {false, 1, 1}, {false, 1, 2}};
  EXPECT_EQ(prices.asked, passes);
  EXPECT_NEAR(run.end.value, 1 + (1 + 2) + 0.9 + (0.9 + 2) + 0.8, tiny);
  EXPECT_NEAR(run.instances[0].counts.moving.value, 4, tiny);

  prices.asked.clear();
  engine.rebalance.stall = Seconds(0);
  engine.rebalance.movement = Seconds(1.5);
  run = run_serving(one_engine(engine, prices), at_once({{1, 5}, {1, 5}}));
  std::vector<std::int64_t> known;
  for (const PassKind& each : prices.asked) known.push_back(each.balanced);
  EXPECT_THAT(known, ElementsAre(0, 0, 0, 0, 1)) << "experts that move behind passes are not there";
}

TEST(Engines, BoundsOfSequencesHold) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.max_sequences = 2;
  run_serving(one_engine(engine, prices), at_once({{5, 3}, {5, 4}, {5, 3}}));
  for (const ServingBatch& batch : prices.asked) EXPECT_LE(batch.ranks[0].size(), 2U);
  EXPECT_THAT(prices.asked[3].ranks[0],
              ElementsAre(SequenceStep{7, 1, 1, 1}, SequenceStep{0, 5, 1, 2}));
}

TEST(Engines, NewRequestsWaitForTheSchedulerToLook) {
  // The second request comes during the second pass, 1.5 s; passes take 1.01, 1.001, ... s.
  EngineOptions engine;
  EXPECT_EQ(two_passes(engine)[2].ranks[0].size(), 2U);
  engine.look_every = 3;
  const auto passes = two_passes(engine);
  // A prompt's pass looks; then three decode passes do not.
  EXPECT_EQ(passes[2].ranks[0].size(), 1U);
  EXPECT_EQ(passes[3].ranks[0].size(), 1U);
  EXPECT_EQ(passes[4].ranks[0].size(), 2U);
}

TEST(Engines, APassThatIsPlannedAheadTakesWhoWasThereWhenTheOneBeforeBegan) {
  // The second request comes at 1.5 s; passes begin at 0, 1.01, 2.011, 3.012 s.
  EngineOptions engine;
  EXPECT_EQ(two_passes(engine)[2].ranks[0].size(), 2U);
  engine.plans_ahead = true;
  const auto passes = two_passes(engine);
  EXPECT_EQ(passes[2].ranks[0].size(), 1U) << "it was chosen at 1.01 s";
  EXPECT_EQ(passes[3].ranks[0].size(), 2U) << "it was chosen at 2.011 s";
}

TEST(Engines, AnIdleEngineThatPlansAheadBeginsAtOnce) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.plans_ahead = true;
  RequestLog log = at_once({{10, 1}, {20, 3}});
  log.concurrency = 1;
  const ServingRun run = run_serving(one_engine(engine, prices), log);
  EXPECT_NEAR(run.requests[0].first.value, 1.01, tiny);
  EXPECT_NEAR(run.requests[1].first.value, 1.01 + 1.02, tiny);
}

TEST(Engines, PromptsWaitUntilAllRanksHaveSomeOrForSoManyPasses) {
  // Two ranks decode from the second pass on; the third request comes during it, the fourth, which
  // the other rank gets, during the fourth.
  const auto prompts_in = [](std::int64_t wait, bool fourth) {
    FormulaPrices prices = second_per_pass();
    EngineOptions engine;
    engine.ranks = 2;
    engine.balance_wait = wait;
    RequestLog log = at_once({{10, 20}, {10, 20}, {10, 2}});
    log.requests[2].arrival = Seconds(1.5);
    if (fourth) log.requests.push_back({Seconds(3.5), 10, 2});
    run_serving(one_engine(engine, prices), log);
    std::size_t pass = 2;
    while (prices.asked[pass].ranks[0].size() < 2) ++pass;
    return pass;
  };
  EXPECT_EQ(prompts_in(0, false), 2U);
  EXPECT_EQ(prompts_in(9, false), 9U) << "counted from the first pass, which had prompts";
  EXPECT_EQ(prompts_in(9, true), 4U) << "both ranks have prompts";
}

TEST(Engines, IntakeDelaysEachRequestByItself) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.intake = Seconds(0.25);
  const ServingRun run = run_serving(one_engine(engine, prices), at_once({{10, 2}, {20, 1}}));
  EXPECT_EQ(run.requests[0].arrival, Seconds(0)) << "clients wait for it, too";
  EXPECT_NEAR(run.requests[0].first.value, 0.25 + 1.03, tiny);
  EXPECT_NEAR(run.requests[1].first.value, 0.25 + 1.03, tiny);
  EXPECT_NEAR(run.requests[0].finish.value, 0.25 + 1.03 + 1.001, tiny) << "once, not per token";
}

TEST(Engines, AnIdleSchedulerLooksAtOnce) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.look_every = 1000;
  RequestLog log = at_once({{10, 1}, {20, 3}});
  log.concurrency = 1;
  const ServingRun run = run_serving(one_engine(engine, prices), log);
  EXPECT_NEAR(run.requests[1].first.value, 1.01 + 1.02, tiny);
}

TEST(Engines, ThatLoseAPassLookBeforeTheNext) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 2;
  engine.look_every = 1000;
  RequestLog log = at_once({{10, 50}, {20, 2}});
  log.requests[1].arrival = Seconds(1.5);
  Deployment deployment = one_engine(engine, prices);
  deployment.losses = {{Seconds(5.2), 0, 1, Seconds(1), {}, 1}};
  // From 6.2 s on the rank that is left computes a token of the first and the second's prompt.
  EXPECT_NEAR(run_serving(deployment, log).requests[1].first.value, 6.2 + 1.021, tiny);
}

TEST(Engines, ARouterSeesTheSequencesOfAllRanks) {
  FormulaPrices prices = second_per_pass();
  EngineOptions engine;
  engine.ranks = 2;
  ServingInstance instance(engine, 0, prices);
  for (const std::int64_t prompt : {10, 20, 40}) {
    ServingSequence sequence;
    sequence.known = prompt;
    sequence.output = 5;
    instance.submit(std::move(sequence));
  }
  EXPECT_EQ(instance.load({}).waiting, 3);
  EXPECT_EQ(instance.load({}).tokens, 15 + 25 + 45);
  instance.begin(Seconds(0));
  EXPECT_EQ(instance.load({}).waiting, 0);
  EXPECT_EQ(instance.load({}).running, 3);
  ServingSequence late;
  late.known = 30;
  late.output = 5;
  engine.look_every = 2;
  ServingInstance unseen(engine, 0, prices);
  unseen.submit(std::move(late));
  EXPECT_EQ(unseen.load({}).waiting, 1) << "no rank has it yet";
  EXPECT_EQ(unseen.load({}).tokens, 35);
}

}  // namespace
}  // namespace moesim
