// SPDX-License-Identifier: Apache-2.0
// What pools of engines take for themselves: room for keys and values, prices, topologies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/run/engine_views.h"
#include "tests/error_of.h"
#include "tests/run/engine_scenarios.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Keys and values that fit next to the work of a pass of so many new tokens on every rank.
std::int64_t room_beside(std::int64_t tokens) {
  OpenedPool pool(pools_scenario("  engine: vllm\n" + requests_of_tokens(1, 9, 1)));
  const ServingBatch pass{{8, {SequenceStep{0, tokens, 1, -1}}}};
  return pool.prices().exact().cache_tokens(pass, pool.engine_run().engine.memory);
}

// vLLM's EP is TP x DP, MoE TP x EP of SGLang and TensorRT-LLM their world size.
TEST(EnginePools, SpreadExpertsOverAllGpusOfAnInstance) {
  const auto refused = [](const std::string& engine, const std::string& parallel) -> std::string {
    const Scenario scenario = parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: megatron\n"
        "parallel: " +
            parallel +
            "\nset: [topology.nodes=1]\nsteps: 3:4\nserving:\n  graphs: false\n  engine: " +
            engine + "\n  requests: {count: 1, concurrency: 1, input: 9, output: 2}\n",
        "groups.yaml", {});
    return error_of([&] { pools_cases(scenario); });
  };
  EXPECT_THAT(refused("vllm", "{tp: 1, ep: 4}"),
              HasSubstr("vllm spreads experts over all 8 GPUs of an instance, not ep 4 x etp 1"));
  EXPECT_THAT(refused("sglang", "{tp: 2, etp: 1, ep: 4}"), HasSubstr("sglang spreads"));
  EXPECT_EQ(refused("vllm", "{tp: 2, etp: 2, ep: 4}"), "");
  EXPECT_EQ(refused("{max_sequences: 8, max_tokens: 512}", "{tp: 1, ep: 4}"), "");
}

TEST(EnginePools, KeepTheRoomThatTheirLargestPassLeaves) {
  const auto kept = [](const std::string& engine, int input) {
    return pools_cases(
               pools_scenario("  engine: " + engine + "\n" + requests_of_tokens(2, input, 2)))
        .at(0)
        .outcome.kv_tokens;
  };
  EXPECT_EQ(kept("vllm", 3000), room_beside(8192));
  EXPECT_EQ(kept("{preset: vllm, max_tokens: 512}", 3000), room_beside(512));
  EXPECT_EQ(kept("vllm", 1), room_beside(8192)) << "whatever requests come";
  EXPECT_LT(room_beside(8192), room_beside(512));
  EXPECT_LT(room_beside(512), room_beside(1));
}

/// One sequence on every rank decodes a token behind so many others.
TEST(EnginePools, KeepTheSameRoomHoweverManyKeysThePassHasItself) {
  const auto room_behind = [](std::int64_t context) {
    OpenedPool pool(pools_scenario("  engine: vllm\n" + requests_of_tokens(1, 9, 1)));
    const ServingBatch pass{{8, {SequenceStep{context, 1, 1, -1}}}};
    return pool.prices().exact().cache_tokens(pass, pool.engine_run().engine.memory);
  };
  EXPECT_EQ(room_behind(64), room_behind(100'000));
}

TEST(EnginePools, ThatDecodeOnATopologyOfTheirOwnServeCasesOnAll) {
  const auto on = [](const std::string& topology, const std::string& policy) {
    return pools_cases(
        pools_scenario("  engine: vllm\n  instances: {prefill: 1, decode: 1}\n"
                       "  decode: {topology: b200-hgx, policy: alltoall}\n" +
                           requests_of_tokens(3, 300, 3),
                       topology, policy));
  };
  const auto all = on("[h100-rail, b200-hgx]", "[deepep-low-latency, alltoall]");
  ASSERT_EQ(all.size(), 4U);
  const auto first = on("h100-rail", "deepep-low-latency"), last = on("b200-hgx", "alltoall");
  EXPECT_EQ(all[0].outcome.metrics.tpot.p50, first[0].outcome.metrics.tpot.p50);
  EXPECT_EQ(all[0].outcome.metrics.ttft.p50, first[0].outcome.metrics.ttft.p50);
  EXPECT_EQ(all[3].outcome.metrics.tpot.p50, last[0].outcome.metrics.tpot.p50);
  EXPECT_EQ(all[3].outcome.metrics.ttft.p50, last[0].outcome.metrics.ttft.p50);
}

/// Eight prompts on eight ranks: if ranks are drawn, some get two; in turn each gets one.
TEST(EnginePools, OfPromptsMayHaveARouterOfTheirOwn) {
  const auto first_token = [](const std::string& engine, const std::string& pools) {
    return pools_cases(pools_scenario("  prices: exact\n  engine: " + engine + pools +
                                      requests_of_tokens(8, 4000, 1)))
        .at(0)
        .outcome.metrics.ttft.mean;
  };
  const std::string round = "{preset: vllm, router: round-robin}\n",
                    drawn = "{preset: vllm, router: round-robin, prompts_router: random}\n",
                    apart = "  instances: {prefill: 1, decode: 1}\n";
  EXPECT_GT(first_token(drawn, apart), 1.2 * first_token(round, apart));
  EXPECT_EQ(first_token(drawn, ""), first_token(round, "")) << "they decode, too";
}

TEST(EnginePools, CostWhatTheirOwnClustersState) {
  const auto outcome = [](const std::string& first, const std::string& second) {
    return pools_cases(
               parse_scenario(
                   "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nsteps: 3:4\n"
                   "policy: alltoall\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1" +
                       first +
                       "]\nserving:\n  engine: vllm\n  instances: {prefill: 2, decode: 1}\n"
                       "  decode: {topology: b200-hgx, set: [topology.nodes=1" +
                       second + "]}\n" + requests_of_tokens(3, 300, 3),
                   "costs.yaml", {}))
        .at(0)
        .outcome;
  };
  const EngineOutcome both =
      outcome(", topology.price=3 $/h, 'topology:h100-rail.power=700 W'", ", topology.price=9 $/h");
  ASSERT_TRUE(both.costs.dollars_per_million);
  EXPECT_DOUBLE_EQ(*both.costs.dollars_per_million,
                   (16 * 3.0 + 8 * 9.0) / 3600 / both.metrics.rates.output * 1e6);
  EXPECT_FALSE(both.costs.joules);
  EXPECT_EQ(both.costs_not_stated, "power of the GPUs that decode");
  const EngineOutcome second = outcome("", ", topology.price=9 $/h");
  EXPECT_FALSE(second.costs.dollars_per_million);
  EXPECT_EQ(second.costs_not_stated, "price of the GPUs that compute prompts");
  EXPECT_EQ(outcome("", "").costs_not_stated, "");
}

TEST(EnginePools, ThatSimulateEveryPassCountEachOnceAndAreNotOff) {
  const auto cases = pools_cases(
      pools_scenario("  engine: vllm\n  prices: exact\n  instances: {prefill: 1, decode: 1}\n"
                     "  decode: {parallel: {ep: 8}}\n" +
                     requests_of_tokens(3, 300, 3)));
  const EngineOutcome& run = cases.at(0).outcome;
  EXPECT_GT(run.metrics.passes.passes, 1);
  EXPECT_EQ(run.simulated, run.metrics.passes.passes);
  EXPECT_EQ(run.errors.all().checks, 0);
  EXPECT_EQ(run.errors.worse_mean(), 0);
  EXPECT_EQ(run.errors.all().of_sum(), 0);
  EXPECT_FALSE(run.samples.empty());
}

std::string refusal_of(const std::string& more) {
  return error_of([&] {
    pools_cases(parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
        "policy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\nsteps: 3:4\n"
        "set: [topology.nodes=1]\nserving:\n  engine: vllm\n  memory_fraction: 0.05\n" +
            requests_of_tokens(1, 300, 1) + more,
        "small.yaml", {}));
  });
}

TEST(EnginePools, ThatRunAloneSayThemselvesWhyTheyCannot) {
  const std::string why = "deepep-low-latency: weights and work of a pass take ";
  EXPECT_THAT(refusal_of(""), AllOf(HasSubstr("error: " + why),
                                    Not(HasSubstr("no case of the comparison can run"))));
  EXPECT_THAT(
      refusal_of("fidelity: [port, analytic]\n"),
      AllOf(HasSubstr("was not run: " + why), HasSubstr("no case of the comparison can run")));
}

TEST(EnginePools, AreRoutedToAsTheirInstancesAskFor) {
  const auto slowest = [](const std::string& router) {
    const auto cases = pools_cases(pools_scenario(
        "  engine: {preset: vllm, max_tokens: 512}\n  instances: {count: 2, router: " + router +
        "}\n  requests: {count: 24, rate: 400, seed: 1, input: {mean: 2000, spread: 1900, law: "
        "uniform}, output: 4}\n"));
    return cases.at(0).outcome.metrics.ttft.most;
  };
  EXPECT_NE(slowest("round-robin"), slowest("least-tokens"));
  EXPECT_EQ(slowest("round-robin"), slowest("round-robin"));
}

TEST(EnginePools, SayThatNoRankWasLostOrNoExpertMoved) {
  const auto told = [](const std::string& more, const std::string& policy) {
    const Scenario scenario =
        pools_scenario("  engine: {preset: vllm, rebalance: {interval: 900}}\n" +
                           requests_of_tokens(2, 30, 9) + more,
                       "h100-rail", policy);
    return engine_table(scenario, pools_cases(scenario)).text();
  };
  const std::string losses = "  losses: [{at: 1 h, rank: 0, ranks: 2, recovery: 1 s}]\n";
  EXPECT_THAT(told(losses, "deepep-normal"), HasSubstr("# no rank was lost: the first loss comes"));
  EXPECT_THAT(told("", "deepep-normal"), Not(HasSubstr("no rank was lost")));
  EXPECT_THAT(told("", "deepep-normal"), Not(HasSubstr("experts move")));
}

/// One request through two pools that check their prices, the first one every so many passes.
struct CheckedPools {
  explicit CheckedPools(const std::string& prompts_every)
      : prompts(checked(prompts_every)), decode(checked("1")) {
    RequestLog log;
    log.requests = {{Seconds(0), 300, 2}};
    outcome = run_pools(prompts.engine_run(), {&prompts.prices(), &prompts.engine_run().engine, 1},
                        PoolInstances{&decode.prices(), &decode.engine_run().engine, 1}, log,
                        no_progress);
  }
  static Scenario checked(const std::string& every) {
    return pools_scenario("  engine: vllm\n  prices: {check_every: " + every + "}\n" +
                          "  instances: {prefill: 1, decode: 1}\n" + requests_of_tokens(1, 300, 2));
  }

  OpenedPool prompts, decode;
  EngineOutcome outcome;
};

TEST(EnginePools, ThatCheckPricesEquallyOftenHaveTheMeanOfTheirErrors) {
  CheckedPools both("1");
  const PriceErrors a = both.prompts.prices().errors().prompts;
  const PriceErrors b = both.decode.prices().errors().decodes;
  const PriceErrors all = both.outcome.errors.all();
  ASSERT_EQ(a.checks, 1);
  ASSERT_EQ(b.checks, 1);
  EXPECT_EQ(all.checks, 2);
  EXPECT_GT(all.mean(), 0);
  EXPECT_DOUBLE_EQ(all.mean(), (a.mean() + b.mean()) / 2);
  EXPECT_EQ(both.outcome.errors.worse_mean(), std::max(a.mean(), b.mean()));
}

TEST(EnginePools, TellOfASingleCheck) {
  CheckedPools one("1000");
  const PriceErrors b = one.decode.prices().errors().all();
  const PriceErrors all = one.outcome.errors.all();
  ASSERT_EQ(one.prompts.prices().errors().all().checks, 0);
  ASSERT_EQ(b.checks, 1);
  EXPECT_EQ(all.checks, 1);
  EXPECT_EQ(all.mean(), b.mean());
  EXPECT_EQ(all.most, b.most);
}

TEST(EnginePools, HaveTheProductsOfExpertsOfTheirEngineUnlessDeepEpHandsThemRows) {
  const auto time = [](const std::string& policy, const std::string& more) {
    OpenedPool pool(parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nsteps: 3:4\n"
        "parallel: {tp: 1, ep: 8}\npolicy: " +
            policy + "\nset: [topology.nodes=1" + more +
            "]\nserving:\n  precision: fp8\n  engine: vllm\n" + requests_of_tokens(1, 64, 40),
        "experts.yaml", {}));
    const std::vector<SequenceStep> decodes = {{1000, 1, 64, -1}};
    return pool.prices().exact().price({{8, decodes}}).time;
  };
  const std::string none = ", \"gpu.kernels.engine_experts={}\"";
  EXPECT_NE(time("megatron-allgather", ""), time("megatron-allgather", none));
  EXPECT_EQ(time("deepep-low-latency", ""), time("deepep-low-latency", none));
}

/// A stated room is no more than memory leaves, also next to the experts of lost ranks.
TEST(EnginePools, TakeNoMoreRoomThanMemoryLeaves) {
  const auto run = [](const std::string& more) {
    return pools_cases(
               parse_scenario("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
                              "steps: 3:4\npolicy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\n"
                              "set: [topology.nodes=1]\nserving:\n  engine: vllm\n" +
                                  more + requests_of_tokens(1, 64, 40),
                              "room.yaml", {}))
        .at(0)
        .outcome;
  };
  const std::int64_t all = run("  memory_fraction: 1\n").kv_tokens;
  EXPECT_EQ(run("  kv_tokens: 1600\n").kv_tokens, 1600);
  EXPECT_THAT(error_of([&] { run("  kv_tokens: " + std::to_string(2 * all) + "\n"); }),
              HasSubstr(" tokens of 'serving.kv_tokens' take "));
  const std::string lost = "  losses: [{at: 1 ms, rank: 0, ranks: 4, recovery: 1 us}]\n";
  EXPECT_EQ(run("  kv_tokens: 1600\n" + lost).losses.kv_left, no_limit);
  EXPECT_LT(run("  kv_tokens: " + std::to_string(all / 16 * 16) + "\n" + lost).losses.kv_left,
            all - 10'000);
}

TEST(EnginePools, HoldTheExpertsOfLostRanksOnTheOthers) {
  const auto outcome = [](int ranks, const std::string& memory) {
    return pools_cases(
               parse_scenario(
                   "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nsteps: 3:4\n"
                   "policy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\n"
                   "set: [topology.nodes=1, gpu.memory=" +
                       memory +
                       "]\nserving:\n  engine: vllm\n  losses: [{at: 1 ms, rank: 0, "
                       "ranks: " +
                       std::to_string(ranks) + ", recovery: 1 us}]\n" +
                       requests_of_tokens(1, 64, 40),
                   "lost.yaml", {}))
        .at(0)
        .outcome;
  };
  const EngineOutcome half = outcome(4, "80 GB");
  OpenedPool pool(pools_scenario("  engine: vllm\n" + requests_of_tokens(1, 64, 40)));
  const ServedExperts experts = pool.prices().exact().served_experts({});
  const MoeModel& model = pool.inputs().model;
  EXPECT_EQ(experts.experts, bytes_of(24 * 32 * model.expert_parameters(), DataType::mxfp4));
  EXPECT_EQ(half.losses.kv_left, experts.tokens_left(half.kv_tokens, 8, 4));
  EXPECT_LT(half.losses.kv_left, half.kv_tokens - 10'000);
  EXPECT_THAT(error_of([&] { outcome(7, "20 GB"); }),
              HasSubstr("7 of 8 ranks are lost: experts take "));
}

TEST(EnginePools, HaveTheExpertsOfALostRankOnTheOthers) {
  const auto token = [](const std::string& losses) {
    return pools_cases(pools_scenario("  engine: vllm\n  prices: exact\n" + losses +
                                      requests_of_tokens(1, 64, 40)))
        .at(0)
        .outcome.metrics.tpot.p50;
  };
  const double all = token(""),
               less = token("  losses: [{at: 1 ms, rank: 7, recovery: 1 us, back: 9 s}]\n");
  EXPECT_GT(less, all + 1e-6) << "the recovery itself is less per token";
  EXPECT_LT(less, all * 8 / 7) << "only experts are spread";
}

}  // namespace
}  // namespace moesim
