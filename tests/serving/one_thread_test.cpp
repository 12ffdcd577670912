// SPDX-License-Identifier: Apache-2.0
// Engines whose thread that schedules also issues kernels; closed loops of known time to the first
// token.
#include <gmock/gmock.h>

#include "tests/serving/simple_prices.h"

namespace moesim {
namespace {

using namespace testing;

/// Passes with prompts of at most so many tokens are graphs.
EngineOptions that_issues(std::int64_t graph_prompt_tokens) {
  EngineOptions engine;
  engine.plans_ahead = engine.one_thread = true;
  engine.graph_prompt_tokens = graph_prompt_tokens;
  return engine;
}

/// The first token of a prompt, if another one comes during its pass, which ends at 1.01 s.
Seconds first_of_two_prompts(const EngineOptions& engine) {
  FormulaPrices prices = second_per_pass();
  RequestLog log = at_once({{10, 1}, {10, 1}});
  log.requests[1].arrival = Seconds(0.5);
  const ServingRun run = run_serving(one_engine(engine, prices), log);
  EXPECT_NEAR(run.requests[1].first.value, 2.02, tiny) << "nothing follows its pass";
  EXPECT_EQ(run.requests[0].finishes + run.requests[1].finishes, 2);
  return run.requests[0].first;
}

TEST(OneThread, ResultsWaitUntilTheNextPassIsIssued) {
  EngineOptions engine = that_issues(0);
  EXPECT_NEAR(first_of_two_prompts(engine).value, 2.02, tiny);
  EXPECT_NEAR(first_of_two_prompts(that_issues(10)).value, 1.01, tiny) << "a graph is one launch";
  engine.one_thread = false;
  EXPECT_NEAR(first_of_two_prompts(engine).value, 1.01, tiny);
  engine.one_thread = true;
  engine.plans_ahead = false;
  EXPECT_NEAR(first_of_two_prompts(engine).value, 1.01, tiny) << "it handles results first";
}

TEST(OneThread, DecodesThatFollowAreIssuedAtOnce) {
  FormulaPrices prices = second_per_pass();
  const ServingRun run = run_serving(one_engine(that_issues(0), prices), at_once({{10, 3}}));
  EXPECT_NEAR(run.requests[0].first.value, 1.01, tiny);
  EXPECT_NEAR(run.requests[0].finish.value, 1.01 + 2 * 1.001, tiny);
}

TEST(OneThread, WhoComesDuringAnEagerPassIsInTheNext) {
  const auto entries_of_second = [](const EngineOptions& engine) {
    FormulaPrices prices = second_per_pass();
    RequestLog log = at_once({{10, 5}, {10, 5}});
    log.requests[1].arrival = Seconds(0.5);
    run_serving(one_engine(engine, prices), log);
    return prices.asked[1].ranks[0].size();
  };
  EXPECT_EQ(entries_of_second(that_issues(0)), 2U) << "chosen at 1.01 s, when the first was issued";
  EXPECT_EQ(entries_of_second(that_issues(10)), 1U) << "chosen at 0 s";
}

TEST(ClosedLoops, FirstTokensTakeAPassAndOneMoreIfPassesArePlannedAhead) {
  // Two in flight, passes of 1 s: the third request comes at 2 s, while the second one decodes; the
  // fourth at 3 s, with the third one in a pass or waiting for it.
  const auto waits = [](bool plans_ahead) {
    FormulaPrices prices([](const ServingBatch&) { return 1.0; });
    EngineOptions engine;
    engine.plans_ahead = plans_ahead;
    RequestLog log = at_once({{5, 2}, {5, 4}, {5, 4}, {5, 4}, {5, 4}, {5, 4}});
    log.concurrency = 2;
    const ServingRun run = run_serving(one_engine(engine, prices), log);
    std::vector<double> of;
    for (const RequestOutcome& request : run.requests) {
      of.push_back((request.first - request.arrival).value);
      EXPECT_NEAR((request.finish - request.first).value, static_cast<double>(request.output - 1),
                  tiny);
    }
    return of;
  };
  EXPECT_THAT(waits(false), ::testing::Each(::testing::DoubleNear(1, tiny)));
  EXPECT_THAT(waits(true), ::testing::ElementsAre(1, 1, 2, 2, 2, 2));
}

}  // namespace
}  // namespace moesim
