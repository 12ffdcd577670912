// SPDX-License-Identifier: Apache-2.0
// Balancers of engines: what they know when they plan, where experts are then, and who waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "sim/run/engine_views.h"
#include "tests/run/engine_scenarios.h"

namespace moesim {
namespace {

const std::string one_request =
    "  engine: vllm\n  requests: {count: 1, concurrency: 1, input: 9, output: 2}\n";

TEST(EngineBalancers, AreNamedIfTheyNeverPlanned) {
  const auto never = [](const std::string& policy, const std::string& steps) {
    const Scenario scenario = parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: " + policy +
            "\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\n" + steps +
            "serving:\n  engine: vllm\n"
            "  requests: {count: 1, concurrency: 1, input: 9, output: 2}\n",
        "never.yaml", {});
    const std::vector<EngineCase> cases = pools_cases(scenario);
    const bool noted =
        engine_table(scenario, cases).text().find("never planned from loads") != std::string::npos;
    EXPECT_EQ(noted, cases.at(0).outcome.balancing.never_planned());
    return noted;
  };
  EXPECT_TRUE(never("eplb", "steps: 12:13\n"));
  EXPECT_FALSE(never("eplb", "steps: 12:13\nwarmup: 12\n"));
  EXPECT_FALSE(never("deepep-normal", "steps: 12:13\n"));
}

TEST(EngineBalancers, AloneStall) {
  const auto stalls = [](const std::string& policy, int warmup) {
    Scenario scenario =
        pools_scenario("  engine: {preset: vllm, rebalance: {interval: 2, stall: 1 s}}\n" +
                           requests_of_tokens(2, 30, 9),
                       "h100-rail", policy);
    scenario.steps = {12, 13};
    scenario.warmup = warmup;
    return pools_cases(scenario).at(0).outcome.metrics.passes.stall_share;
  };
  EXPECT_EQ(stalls("deepep-low-latency", 12), 0);
  EXPECT_GT(stalls("eplb", 12), 0.5);
  EXPECT_GT(stalls("eplb", 0), 0.5) << "it plans from the passes before";
}

/// The same without steps before the run, whose graphs the host does not hold back.
Scenario balanced_scenario(const std::string& policy, const std::string& serving) {
  Scenario scenario = pools_scenario(serving, "h100-rail", policy,
                                     ", policy.dispatch=deepep-low-latency, "
                                     "policy.transport=deepep-ll");
  scenario.steps = {12, 14};
  return scenario;
}

TEST(EngineBalancers, RequestsPlayTheRecordedStepsOneAfterTheOther) {
  // 32 sequences in every step of the trace.
  OpenedPool pool(balanced_scenario("eplb", one_request));
  const StepPrices& prices = pool.prices().exact();
  const auto of = [&](std::int64_t request) {
    const RecordedStep step = prices.step_of(request);
    return std::pair(step.number, step.begun);
  };
  EXPECT_EQ(of(0), std::pair(0L, 1L));
  EXPECT_EQ(of(31), std::pair(0L, 1L));
  EXPECT_EQ(of(32), std::pair(1L, 2L));
  EXPECT_EQ(of(64), std::pair(0L, 3L)) << "round again";
  EXPECT_EQ(of(64 * 7), std::pair(0L, 3L)) << "later rounds tell a balancer nothing new";
  EXPECT_EQ(of(64 * 7 + 32), std::pair(1L, 4L));
}

TEST(EngineBalancers, APlacementFollowsTheStepsThatABalancerHasSeen) {
  OpenedPool pool(balanced_scenario("vllm-eplb", one_request));
  PassPrices& prices = pool.prices().exact();
  ServingBatch batch;
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    auto& steps = batch.ranks.emplace_back();
    for (std::int64_t i = 0; i < 64; ++i) steps.push_back({100, 1, 1, 64 * rank + i});
  }
  const auto time = [&](std::int64_t step, std::int64_t balanced) {
    return prices.price(batch, {false, step, balanced}).time;
  };
  EXPECT_LT(time(1, 1), time(1, 0)) << "before the first plan experts are in turn";
  EXPECT_NE(time(1, 2), time(1, 1)) << "it has seen more";
  EXPECT_NE(time(0, 1), time(1, 1)) << "other tokens";
  EXPECT_EQ(time(1, 1), time(1, 1)) << "a pass tells it nothing";
  EXPECT_GT(prices.moving(0, 1).stall, Seconds(0));
  EXPECT_TRUE(prices.moving(0, 1).moved);
  EXPECT_EQ(prices.moving(1, 1).stall, Seconds(0));
  EXPECT_FALSE(prices.moving(1, 1).moved);
  OpenedPool fixed(balanced_scenario("deepep-low-latency", one_request));
  PassPrices& others = fixed.prices().exact();
  EXPECT_EQ(others.price(batch, {false, 1, 0}).time, others.price(batch, {false, 1, 1}).time);
  EXPECT_EQ(others.moving(0, 1).stall, Seconds(0));
}

TEST(EngineBalancers, ABalancerPaysFromItsFirstIntervalOn) {
  const auto tpot = [](const std::string& rebalance) {
    const Scenario scenario =
        balanced_scenario("vllm-eplb", "  engine: {preset: vllm, rebalance: " + rebalance +
                                           "}\n  prices: exact\n" + requests_of_tokens(512, 8, 12));
    return pools_cases(scenario).at(0).outcome;
  };
  const EngineOutcome never = tpot("{interval: 0}"), soon = tpot("{interval: 3, stall: 0 s}");
  EXPECT_TRUE(never.balancing.never_planned());
  EXPECT_FALSE(soon.balancing.never_planned());
  EXPECT_EQ(soon.balancing.plans, soon.metrics.passes.passes / 3);
  EXPECT_LT(soon.metrics.tpot.p50, never.metrics.tpot.p50);
}

TEST(EngineBalancers, StallForAsLongAsExpertsMoveAndNoPassPaysForItTwice) {
  const auto outcome = [](const std::string& rebalance) {
    Scenario scenario = pools_scenario("  engine: {preset: vllm, rebalance: " + rebalance +
                                           "}\n  prices: exact\n" + requests_of_tokens(2, 30, 9),
                                       "h100-rail", "eplb");
    scenario.steps = {12, 13};
    scenario.warmup = 12;
    return pools_cases(scenario).at(0).outcome;
  };
  const EngineOutcome none = outcome("{interval: 0}"), now_and_then = outcome("{interval: 2}");
  EXPECT_TRUE(none.balancing.planned);
  EXPECT_EQ(none.metrics.passes.stall_share, 0);
  const Seconds stall = now_and_then.balancing.stall;
  EXPECT_GT(stall, Seconds(0));
  EXPECT_EQ(now_and_then.balancing.moves, 1) << "the same loads again";
  EXPECT_EQ(now_and_then.balancing.plans, now_and_then.metrics.passes.passes / 2);
  const auto passes = now_and_then.metrics.passes.passes;
  EXPECT_EQ(passes, none.metrics.passes.passes);
  EXPECT_NEAR((now_and_then.metrics.time - none.metrics.time).value,
              static_cast<double>(now_and_then.balancing.moves) * stall.value,
              1e-3 * none.metrics.time.value)
      << "but for passes that the new places make faster";
}

/// By which passes of a host that issues every kernel are longer if experts move, with eplb on
/// DeepEP's normal kernels.
Seconds first_stall(const std::string& host, const std::string& placement) {
  Scenario scenario = parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: eplb\nparallel: {tp: 1, ep: 8}\nsteps: 12:14\n" +
          host + "set: [topology.nodes=1, " + placement + "]\nserving:\n" + one_request,
      "moves.yaml", {});
  return OpenedPool(scenario).prices().exact().moving(0, 1).stall;
}

TEST(EngineBalancers, NoMoveThatAPassWaitsForHidesBehindLaunches) {
  const std::string blocks = "policy.placement.migration=blocks";
  const Seconds by_itself = first_stall("host: none\n", blocks);
  EXPECT_GT(by_itself, Seconds(1e-3));
  EXPECT_GE(first_stall("", blocks), by_itself);
  EXPECT_LT(first_stall("", "policy.placement.migration=overlapped"), by_itself);
}

TEST(EngineBalancers, PlanningIsPaidThoughNothingMoves) {
  EXPECT_GE(first_stall("host: none\n",
                        "'policy.placement={kind: eplb, first: 1000, planning_time: 1 ms, "
                        "planning: blocks}'"),
            Seconds(24e-3));
}

}  // namespace
}  // namespace moesim
