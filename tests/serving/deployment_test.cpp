// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include "sim/base/error.h"
#include "sim/serving/deployment/rate_match.h"
#include "tests/error_of.h"
#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;
using ::testing::HasSubstr;

/// 100 tokens take a second, and half a second more to arrive.
const LinkTransfers::Link slow_link = {growing_by(1'000'000), BytesPerSecond(100e6), Seconds(0.5)};

TEST(LinkTransfers, GoSideBySideOverTheLinksOfBothInstances) {
  LinkTransfers::Link link = slow_link;
  link.of_sender = 2;
  link.of_receiver = 3;
  LinkTransfers links(link, 2, 1);
  const auto arrivals = [&](int from) {
    std::vector<double> all;
    for (int i = 0; i < 3; ++i) all.push_back(links.arrival(Seconds(0), 100, from, 0).value);
    return all;
  };
  EXPECT_THAT(arrivals(0), ::testing::ElementsAre(1.5, 1.5, 2.5)) << "two links of the sender";
  EXPECT_THAT(arrivals(1), ::testing::ElementsAre(2.5, 2.5, 3.5)) << "three of the receiver";
}

TEST(Deployments, KeysAndValuesMoveFromPromptsToDecoding) {
  FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
  Deployment deployment = one_engine({}, prompts);
  deployment.decode = ServingPool{{}, 1, &decodes};
  LinkTransfers links(slow_link, 1, 1);
  deployment.transfers = &links;
  const ServingRun run = run_serving(deployment, at_once({{100, 3}, {50, 1}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.15 + 1.5, tiny) << "those that decode give it";
  EXPECT_NEAR(run.requests[0].finish.value, 1.15 + 1.5 + 2 * 1.001, tiny);
  EXPECT_NEAR(run.requests[1].finish.value, 1.15, tiny) << "it has no later tokens";
  EXPECT_EQ(run.moved_requests, 1);
  EXPECT_EQ(links.moved(), Bytes(100'000'000));
  EXPECT_EQ(prompts.asked.size(), 1U);
  EXPECT_THAT(decodes.asked[0].ranks[0], ::testing::ElementsAre(SequenceStep{100, 1, 1, 0}));
  EXPECT_EQ(run.instances[0].kv_left + run.instances[1].kv_left, 0);
}

TEST(Deployments, CountWhatRunsWhileAPassDoes) {
  FormulaPrices prices = second_per_pass();
  const Deployment deployment = one_engine({}, prices);
  const ServingRun run = run_serving(deployment, at_once({{100, 1}}));
  ASSERT_EQ(run.samples.size(), 2U);
  EXPECT_EQ(run.samples[0].time, Seconds(0));
  EXPECT_EQ(run.samples[0].running, 1);
  EXPECT_GE(run.samples[0].kv_tokens, 100);
  EXPECT_EQ(run.samples[1].running, 0) << "it has ended with the pass";
  EXPECT_EQ(run.instances[0].kv_tokens_most, run.samples[0].kv_tokens);
}

TEST(Deployments, FirstTokensWaitForAPlaceToDecode) {
  FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
  EngineOptions one;
  one.max_sequences = 1;
  Deployment deployment = one_engine({}, prompts);
  deployment.decode = ServingPool{one, 1, &decodes};
  LinkTransfers links({growing_by(1), BytesPerSecond(1e9), Seconds(0.5)}, 1, 1);
  deployment.transfers = &links;
  const ServingRun run = run_serving(deployment, at_once({{100, 3}, {100, 3}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.2 + 0.5, 1e-6);
  EXPECT_NEAR(run.requests[1].first.value, run.requests[0].finish.value, tiny);
  EXPECT_NEAR((run.requests[1].finish - run.requests[1].first).value, 2 * 1.001, tiny);
}

TEST(Deployments, PoolsOfPromptsHoldNoAnswers) {
  FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
  EngineOptions engine;
  engine.chunked_prefill = false;
  engine.max_tokens = 101;
  engine.kv.capacity = 112;
  Deployment deployment = one_engine(engine, prompts);
  deployment.decode = ServingPool{{}, 1, &decodes};
  LinkTransfers links(slow_link, 1, 1);
  deployment.transfers = &links;
  EXPECT_EQ(run_serving(deployment, at_once({{100, 300}})).requests[0].emitted, 300);
}

TEST(Deployments, LogsWithoutHashesShareNoPrefix) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{100, 2}, {100, 2}});
  for (int i = 0; i < 2; ++i) log.prefixes.add_row(std::vector<std::uint64_t>());
  const ServingRun run = run_serving(one_engine({}, prices), log);
  EXPECT_EQ(run.instances[0].ranks.cached_tokens, 0);
  EXPECT_EQ(run.requests[1].finishes, 1);
}

TEST(Deployments, TransfersQueueAtBothEnds) {
  LinkTransfers links(slow_link, 2, 2);
  EXPECT_NEAR(links.arrival(Seconds(0), 100, 0, 0).value, 1.5, tiny);
  EXPECT_NEAR(links.arrival(Seconds(0), 100, 0, 1).value, 2.5, tiny) << "the same sender";
  EXPECT_NEAR(links.arrival(Seconds(0), 100, 1, 0).value, 2.5, tiny) << "the same receiver";
  EXPECT_NEAR(links.arrival(Seconds(9), 100, 1, 0).value, 10.5, tiny);
}

TEST(Deployments, BlocksOfPromptsStayUntilTheyAreCopied) {
  FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
  EngineOptions engine;
  engine.kv.capacity = 112;
  Deployment deployment = one_engine(engine, prompts);
  engine.kv.capacity = 1000;
  deployment.decode = ServingPool{engine, 1, &decodes};
  LinkTransfers links(slow_link, 1, 1);
  deployment.transfers = &links;
  const ServingRun run = run_serving(deployment, at_once({{100, 2}, {100, 2}}));
  EXPECT_NEAR(run.requests[1].first.value, 1.1 + 1.5 + 1.1 + 1.5, tiny);
}

TEST(Deployments, PlacesOfPromptsStayUntilTheyAreCopiedIfTheEngineHoldsThem) {
  const auto second_arrival = [](bool holds) {
    FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
    EngineOptions engine;
    engine.max_sequences = 1;
    engine.holds_places = holds;
    Deployment deployment = one_engine(engine, prompts);
    deployment.decode = ServingPool{{}, 2, &decodes};
    LinkTransfers links(slow_link, 1, 2);
    deployment.transfers = &links;
    return run_serving(deployment, at_once({{100, 2}, {100, 2}})).requests[1].first;
  };
  EXPECT_NEAR(second_arrival(false).value, 2 * 1.1 + 1.5, tiny) << "the link is free at 2.1 s";
  EXPECT_NEAR(second_arrival(true).value, 2 * (1.1 + 1.5), tiny);
}

TEST(Deployments, RoutersCountRequestsOnTheirWay) {
  FormulaPrices prompts = second_per_pass(), decodes = second_per_pass();
  EngineOptions one;
  one.max_sequences = 1;
  Deployment deployment = one_engine({}, prompts);
  deployment.router.kind = RouterOptions::Kind::least_requests;
  deployment.decode = ServingPool{one, 2, &decodes};
  LinkTransfers links({growing_by(1), BytesPerSecond(1e9), Seconds(0.5)}, 1, 2);
  deployment.transfers = &links;
  // Both leave at once, when neither instance has work.
  const ServingRun run = run_serving(deployment, at_once({{100, 9}, {100, 9}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.2 + 0.5, 1e-6);
  EXPECT_NEAR(run.requests[1].first.value, 1.2 + 0.5, 1e-6);
}

TEST(Deployments, InstancesShareRequests) {
  FormulaPrices prices = second_per_pass();
  Deployment deployment = one_engine({}, prices);
  deployment.pool.instances = 2;
  const ServingRun run = run_serving(deployment, at_once({{10, 1}, {20, 1}, {30, 1}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.04, tiny);
  EXPECT_NEAR(run.requests[1].first.value, 1.02, tiny);
}

TEST(Deployments, ClosedLoopsKeepTheirConcurrency) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{5, 2}, {5, 3}, {5, 2}, {5, 2}, {5, 2}});
  log.concurrency = 2;
  const ServingRun run = run_serving(one_engine({}, prices), log);
  for (const ServingBatch& batch : prices.asked) EXPECT_LE(batch.ranks[0].size(), 2U);
  EXPECT_EQ(run.requests[2].arrival, run.requests[0].finish);
  EXPECT_EQ(run.requests[3].arrival, run.requests[1].finish);
}

TEST(Deployments, OneProcessPreparesAllOfABurstBeforeItSendsAny) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{100, 1}, {100, 1}, {100, 1}});
  log.concurrency = 2;
  log.client = {Seconds(0.1), Seconds(0.01)};
  const ServingRun run = run_serving(one_engine({}, prices), log);
  EXPECT_NEAR(run.requests[0].arrival.value, 0, tiny) << "its clock";
  EXPECT_NEAR(run.requests[1].arrival.value, 0.1, tiny);
  EXPECT_NEAR(run.requests[0].finish.value, 0.2 + 1.1, tiny) << "no other is in its pass";
  EXPECT_NEAR(run.requests[1].finish.value, 0.2 + 1.1 + 1.1, tiny) << "it came 0.01 s too late";
  EXPECT_NEAR(run.requests[2].arrival.value, 0.2 + 1.1, tiny);
  EXPECT_NEAR(run.requests[2].finish.value, 0.2 + 1.1 + 1.1 + 1.1, tiny);
}

TEST(Deployments, RepliesThatEndTogetherAreFollowedOneByOne) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{100, 1}, {100, 1}, {100, 1}, {100, 1}});
  log.concurrency = 2;
  log.client.prepare = Seconds(0.1);
  const ServingRun run = run_serving(one_engine({}, prices), log);
  EXPECT_NEAR(run.requests[0].finish.value, 0.2 + 1.2, tiny) << "without a time to send, together";
  EXPECT_NEAR(run.requests[2].arrival.value, 1.4, tiny);
  EXPECT_NEAR(run.requests[3].arrival.value, 1.5, tiny) << "its turn comes after the other's";
  EXPECT_NEAR(run.requests[2].finish.value, 1.5 + 1.1, tiny);
  EXPECT_NEAR(run.requests[3].finish.value, 1.5 + 1.1 + 1.1, tiny);
}

std::string serving_error(const EngineOptions& engine, const RequestLog& log) {
  FormulaPrices prices = second_per_pass();
  return error_of([&] { run_serving(one_engine(engine, prices), log); });
}

TEST(Deployments, WhatCannotRunIsSaidBefore) {
  EngineOptions engine;
  engine.kv.capacity = 100;
  EXPECT_THAT(serving_error(engine, at_once({{10, 10}, {90, 20}})),
              HasSubstr("request 1 needs 110 tokens of KV cache, but a rank holds 100"));
  engine.kv.capacity = 96;  // six blocks
  EXPECT_EQ(serving_error(engine, at_once({{90, 6}})), "");
  EXPECT_THAT(serving_error(engine, at_once({{90, 7}})), HasSubstr("needs 97 tokens"));
  engine = {};
  engine.chunked_prefill = false;
  engine.max_tokens = 50;
  EXPECT_THAT(serving_error(engine, at_once({{60, 1}})), HasSubstr("chunked prefill"));
  EXPECT_THAT(serving_error(engine, at_once({{45, 6}})), HasSubstr("request 0 has 51 tokens"));
  engine.kv.reserve = {1, 1, 0};
  EXPECT_EQ(serving_error(engine, at_once({{45, 6}})), "") << "it is never preempted";
  engine = {};
  engine.drafts = 1;
  EXPECT_THAT(serving_error(engine, at_once({{60, 1}})), HasSubstr("1 draft: 2 shares"));
  engine.gained = {0.5, 0.6};
  EXPECT_THAT(serving_error(engine, at_once({{60, 1}})), HasSubstr("sum to 1.1"));
  engine = {};
  RequestLog log = at_once({{60, 1}});
  log.prefix_tokens = 24;
  EXPECT_THAT(serving_error(engine, log), HasSubstr("do not divide"));
  FormulaPrices prices = second_per_pass();
  Deployment deployment = one_engine({}, prices);
  deployment.losses = {{Seconds(0), 0, 1, Seconds(1), {}}};
  EXPECT_THROW(run_serving(deployment, at_once({{1, 1}})), Error);
  deployment.losses[0].rank = 0;
  EXPECT_THROW(run_serving(deployment, at_once({{1, 1}})), Error) << "no rank is left";
}

TEST(Deployments, ProgressReachesTheEndAndMayEndTheRun) {
  FormulaPrices prices = second_per_pass();
  double last = -1;
  run_serving(one_engine({}, prices), at_once({{5, 2}, {5, 4}}), [&](double done) {
    EXPECT_GE(done, last);
    last = done;
  });
  EXPECT_EQ(last, 1);
  EXPECT_THROW(run_serving(one_engine({}, prices), at_once({{5, 2}}),
                           [](double) { throw std::runtime_error("stop"); }),
               std::runtime_error);
}

TEST(RateMatches, PoolsAnswerAsManyRequestsAsTheyGet) {
  // A decode instance of 2 GPUs answers half of what a prompt instance of 1 GPU computes.
  const RateMatch match = match_rates({10, 1}, {5, 2}, 11);
  EXPECT_EQ(match.prompt_instances, 2);
  EXPECT_EQ(match.decode_instances, 4);
  EXPECT_NEAR(match.requests_per_second, 20, tiny);
  EXPECT_NEAR(match.requests_per_second_per_gpu, 2, tiny);
  EXPECT_EQ(match_rates({3, 2}, {2, 1}, 4).prompt_instances, 1);
  EXPECT_EQ(match_rates({10, 4}, {5, 8}, 11).prompt_instances, 0) << "not even one of each fits";
}

}  // namespace
}  // namespace moesim
