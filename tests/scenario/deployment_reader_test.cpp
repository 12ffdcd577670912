// SPDX-License-Identifier: Apache-2.0
// Instances, pools, transfers and losses of a run of an engine, and what is said of each mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>
#include <utility>

#include "sim/scenario/engine_run.h"
#include "tests/scenario/engine_scenarios.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Deployments, ATransferMayStateOneOfBandwidthAndLatency) {
  const auto transfer = [](const std::string& keys) {
    const EngineRun run =
        *engine_scenario("  engine: vllm\n" + few_requests +
                         "  instances: {prefill: 1, decode: 1}\n  transfer: {" + keys + "}\n")
             .engine_run;
    return std::pair(run.transfer_bandwidth, run.transfer_latency);
  };
  EXPECT_EQ(transfer("latency: 1 ms"),
            std::pair(std::optional<BytesPerSecond>(), std::optional(Seconds(1e-3))));
  EXPECT_EQ(transfer("bandwidth: 1 GB/s"),
            std::pair(std::optional(BytesPerSecond(1e9)), std::optional<Seconds>()));
}

TEST(Deployments, PoolsAndLosses) {
  const EngineRun run = *engine_scenario(
                             "  engine: vllm\n  instances: {prefill: 2, decode: 3}\n"
                             "  transfer: {bandwidth: 25 GB/s}\n"
                             "  losses: [{at: 1 s, rank: 3, recovery: 2 s, back: 9 s}]\n" +
                             few_requests)
                             .engine_run;
  EXPECT_EQ(run.instances, 2);
  EXPECT_EQ(run.decode_instances, 3);
  EXPECT_EQ(run.transfer_bandwidth, BytesPerSecond(25e9));
  EXPECT_EQ(run.transfer_latency, std::nullopt);
  ASSERT_EQ(run.losses.size(), 1U);
  EXPECT_EQ(run.losses[0].back, Seconds(9));
}

TEST(Deployments, PoolsThatAreNotNamedHaveNone) {
  const auto pools = [](const std::string& instances) {
    const EngineRun run =
        *engine_scenario("  engine: vllm\n  instances: " + instances + "\n" + few_requests)
             .engine_run;
    return std::pair(run.instances, run.decode_instances);
  };
  EXPECT_EQ(pools("1"), std::pair(1, 0));
  EXPECT_EQ(pools("3"), std::pair(3, 0));
  EXPECT_EQ(pools("{count: 3}"), std::pair(3, 0));
}

TEST(Deployments, PoolsComeInPairs) {
  const auto mistakes = [](const std::string& keys) {
    return engine_mistakes("  engine: vllm\n  " + keys + "\n" + few_requests);
  };
  EXPECT_THAT(mistakes("instances: {prefill: 2}"),
              testing::AllOf(HasSubstr("engine.yaml:7:24: error: 'serving.instances' has 'prefill' "
                                       "without 'decode'"),
                             HasSubstr("hint: {prefill: 1, decode: 1}; ")));
  EXPECT_THAT(mistakes("instances: {prefil: 5}"),
              testing::AllOf(HasSubstr("unknown key 'prefil'"), HasSubstr("'prefill'"),
                             testing::Not(HasSubstr("lacks the key"))));
  EXPECT_THAT(mistakes("instances: {decode: 1}"),
              testing::AllOf(HasSubstr("has 'decode' without 'prefill'"),
                             testing::Not(HasSubstr("lacks the key"))));
  EXPECT_THAT(mistakes("instances: {count: 3, prefill: 1, decode: 1}"),
              HasSubstr("has 'count' together with 'prefill'"));
  EXPECT_THAT(mistakes("transfer: {bandwidth: 50 GB/s}"),
              HasSubstr("engine.yaml:7:13: error: 'serving.transfer' needs instances that only "
                        "decode"));
}

TEST(Deployments, APoolThatDecodesServesTheSameModel) {
  const auto mistakes = [](const std::string& decode) {
    return engine_mistakes("  engine: vllm\n  instances: {prefill: 1, decode: 1}\n  decode: {" +
                           decode + "}\n" + few_requests);
  };
  EXPECT_THAT(mistakes("model: gpt-oss-120b"),
              testing::AllOf(HasSubstr("engine.yaml:8:19: error: 'serving.decode' has another "
                                       "model than 'gpt-oss-20b'"),
                             HasSubstr("hint: leave it out")));
  EXPECT_THAT(mistakes("set: [topology.nodes=1, model.layers=2]"),
              HasSubstr("'model.layers=2' changes the model"));
  EXPECT_EQ(mistakes("model: gpt-oss-20b, set: [topology.nodes=1]"), "");
}

TEST(Deployments, MappingsOfAPoolThatDecodesReplacePlainValues) {
  const auto engine = [](const std::string& of_decode) {
    const Scenario scenario = engine_scenario(
        "  engine: vllm\n  instances: {prefill: 1, decode: 1}\n"
        "  decode: {serving: {engine: {" +
        of_decode + "}}}\n" + few_requests);
    EXPECT_EQ(scenario.engine_run->engine.name, "vllm");
    const EngineModel& decodes = scenario.engine_run->decode->engine_run->engine;
    return std::pair(decodes.name, decodes.options.max_sequences);
  };
  EXPECT_EQ(engine("preset: sglang, max_sequences: 4"), std::pair(std::string("sglang"), 4L));
  EXPECT_EQ(engine("max_sequences: 4"), std::pair(std::string("vllm"), 4L));
}

TEST(Deployments, APoolThatDecodesIsReadWithItsKeys) {
  const EngineRun run =
      *engine_scenario(
           "  engine: vllm\n  instances: {prefill: 1, decode: 2}\n"
           "  decode: {parallel: {ep: 8}, layers: [0, 1], set: [topology.nodes=2]}\n" +
           few_requests)
           .engine_run;
  std::vector<std::string> keys;
  for (const Override& key : run.decode_keys) keys.push_back(key.str() + " " + key.value);
  EXPECT_THAT(keys, ElementsAre("serving.decode.parallel.ep 8", "serving.decode.layers [0,1]",
                                "serving.decode.set: topology.nodes=2 topology.nodes=2"));
  ASSERT_NE(run.decode, nullptr);
  EXPECT_EQ(run.decode->iteration->parallel.ep, 8);
  EXPECT_THAT(run.decode->layers, ElementsAre(0, 1));
  EXPECT_EQ(run.decode->overrides_of("topology", "h100-rail").size(), 1U);
  EXPECT_TRUE(run.decode->engine_run->decode_keys.empty()) << "its own keys have none";
  EXPECT_EQ(run.decode->engine_run->decode, nullptr);
}

TEST(Deployments, OneInstanceThatDecodesMayHaveKeys) {
  EXPECT_EQ(engine_mistakes("  engine: vllm\n  instances: {prefill: 1, decode: 1}\n"
                            "  decode: {parallel: {ep: 8}}\n" +
                            few_requests),
            "");
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {count: 1, rate: 1, concurrency: 1, "
                              "input: 1, output: 1}\n"),
              HasSubstr("together with concurrency"));
}

TEST(Deployments, LossesAreOfOneRankOfTheFirstInstanceUnlessStated) {
  const auto run = [](const std::string& losses) {
    return *engine_scenario("  engine: vllm\n  losses: " + losses + "\n" + few_requests).engine_run;
  };
  const EngineRun plain = run("[{at: 1 s, rank: 3, recovery: 2 s}]");
  const RankLoss& loss = plain.losses.at(0);
  EXPECT_EQ(loss.at, Seconds(1));
  EXPECT_EQ(loss.recovery, Seconds(2));
  EXPECT_EQ(std::tuple(loss.instance, loss.rank, loss.ranks, loss.decodes),
            std::tuple(0, 3, 1, false));
  EXPECT_FALSE(loss.back);
  const EngineRun stated =
      run("[{at: 1 s, rank: 3, recovery: 2 s, ranks: 8, pool: decode, instance: 2}]");
  EXPECT_EQ(stated.losses.at(0).ranks, 8);
  EXPECT_EQ(stated.losses.at(0).instance, 2);
  EXPECT_TRUE(stated.losses.at(0).decodes);
  const EngineRun rate = run("{every: 1000 h, recovery: 1 s, back: 10 min}");
  ASSERT_TRUE(rate.loss_rate);
  EXPECT_TRUE(rate.losses.empty());
  EXPECT_EQ(rate.loss_rate->between, Seconds(3.6e6));
  EXPECT_EQ(rate.loss_rate->recovery, Seconds(1));
  EXPECT_EQ(rate.loss_rate->back, Seconds(600));
  EXPECT_EQ(rate.loss_rate->ranks, 1);
  EXPECT_EQ(rate.loss_rate->seed, 1U);
  EXPECT_EQ(rate.decode_instances, 0);
  EXPECT_EQ(rate.instances, EngineRun().instances);
}

TEST(Deployments, APoolThatDecodesMayHaveKeysOfItsOwn) {
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  decode: {parallel: {ep: 8}}\n" + few_requests),
              HasSubstr("'serving.decode' needs instances that only decode"));
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {count: 1, concurrency: 1, arrivals: "
                              "gamma, input: 1, output: 1}\n"),
              HasSubstr("arrivals' without a rate"));
  EXPECT_THAT(engine_mistakes("  engine: {preset: vllm, drafts: {tokens: 2, gained: [1, 0, 0]}}\n" +
                              few_requests),
              HasSubstr("has 2 drafts, 'serving.drafts' is 0"));
}

}  // namespace
}  // namespace moesim
