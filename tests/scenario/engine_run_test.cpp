// SPDX-License-Identifier: Apache-2.0
// The keys of a run of an engine, and what is said of each mistake.
#include "sim/scenario/engine_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/policy_planner.h"
#include "sim/scenario/scenario_text.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Scenario engine_scenario(const std::string& serving) {
  return parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nserving:\n" +
          serving,
      "engine.yaml", {});
}

std::string engine_mistakes(const std::string& serving) {
  try {
    engine_scenario(serving);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

const std::string few_requests = "  requests: {count: 3, concurrency: 2, input: 10, output: 4}\n";

TEST(EngineRuns, RequestsAndAPreset) {
  const Scenario scenario = engine_scenario(
      "  engine: sglang\n  requests: {count: 9, rate: 2.5, arrivals: gamma, variation: 3, seed: 4, "
      "input: {mean: 100, spread: 50, law: uniform}, output: {mean: 20, spread: 5, least: 2, most: "
      "40}}\n  sla: {ttft: 2 s, tpot: 50 ms}\n  warmup_requests: 1\n");
  ASSERT_NE(scenario.engine_run, nullptr);
  const EngineRun& run = *scenario.engine_run;
  EXPECT_EQ(run.engine.name, "sglang");
  EXPECT_FALSE(run.engine.options.mixed);
  EXPECT_EQ(run.draw.count, 9);
  EXPECT_EQ(run.draw.arrivals.kind, ArrivalLaw::Kind::gamma);
  EXPECT_EQ(run.draw.arrivals.rate, 2.5);
  EXPECT_EQ(run.draw.input.kind, LengthLaw::Kind::uniform);
  EXPECT_EQ(run.draw.output.most, 40);
  EXPECT_EQ(run.sla.ttft, Seconds(2));
  EXPECT_EQ(run.sla.tpot, Seconds(0.05));
  EXPECT_EQ(run.warmup, 1);
}

TEST(EngineRuns, TheHostIsTheEnginesUnlessStated) {
  const auto kernel = [](const std::string& engine, const std::vector<Override>& flags) {
    const Scenario scenario = parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
        "policy: deepep-low-latency\nserving:\n  engine: " +
            engine + "\n" + few_requests,
        "engine.yaml", flags);
    return open_inputs(scenario).clusters.at(0).gpus.at(0)->host.per_kernel.value;
  };
  EXPECT_DOUBLE_EQ(kernel("vllm", {}), 13.5e-6) << "its software's";
  EXPECT_DOUBLE_EQ(kernel("sglang", {}), 36e-6);
  EXPECT_DOUBLE_EQ(kernel("{preset: sglang, host: {per_kernel: 20 us}}", {}), 20e-6);
  EXPECT_DOUBLE_EQ(kernel("sglang", {{"host.per_kernel", "10us", "--set"}}), 10e-6);
}

TEST(EngineRuns, KeysChangeAPreset) {
  const EngineRun run = *engine_scenario(
                             "  engine: {preset: vllm, max_sequences: 7}\n"
                             "  router: prefix\n  kv_tokens: 5000\n" +
                             few_requests)
                             .engine_run;
  EXPECT_EQ(run.engine.options.max_sequences, 7);
  EXPECT_EQ(run.engine.options.max_tokens, 8192);
  EXPECT_EQ(run.engine.options.router.kind, RouterOptions::Kind::prefix);
  EXPECT_EQ(run.engine.options.kv.capacity, 5000);
}

TEST(EngineRuns, DraftsOfThePassSayWhatIsGainedOnAverage) {
  const EngineRun run =
      *engine_scenario("  engine: vllm\n  drafts: 3\n  accepted: 1.25\n" + few_requests).engine_run;
  EXPECT_EQ(run.engine.options.drafts, 3);
  EXPECT_THAT(run.engine.options.gained, ElementsAre(0, 0.75, 0.25, 0));
  EXPECT_EQ(run.prices.decode_tokens, 4);
  const EngineRun all =
      *engine_scenario("  engine: vllm\n  drafts: 1\n  accepted: 1\n" + few_requests).engine_run;
  EXPECT_THAT(all.engine.options.gained, ElementsAre(0, 1));
}

TEST(EngineRuns, PoolsAndLosses) {
  const EngineRun run = *engine_scenario(
                             "  engine: vllm\n  instances: {prefill: 2, decode: 3}\n"
                             "  transfer: {bandwidth: 25 GB/s}\n"
                             "  losses: [{at: 1 s, rank: 3, recovery: 2 s, back: 9 s}]\n" +
                             few_requests)
                             .engine_run;
  EXPECT_EQ(run.instances, 2);
  EXPECT_EQ(run.decode_instances, 3);
  EXPECT_EQ(run.transfer_bandwidth, BytesPerSecond(25e9));
  ASSERT_EQ(run.losses.size(), 1U);
  EXPECT_EQ(run.losses[0].back, Seconds(9));
}

TEST(EngineRuns, MistakesSayWhatToDo) {
  EXPECT_THAT(engine_mistakes("  engine: vlm\n" + few_requests), HasSubstr("vllm"));
  EXPECT_THAT(engine_mistakes(few_requests), HasSubstr("engine"));
  EXPECT_THAT(
      engine_mistakes("  engine: vllm\n  batch: {context: 1, sequences: 1}\n" + few_requests),
      HasSubstr("together with 'serving.requests'"));
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {count: 1, input: 1, output: 1}\n"),
              HasSubstr("neither rate nor concurrency"));
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {file: nowhere.jsonl}\n"),
              HasSubstr("there is no request log 'nowhere.jsonl'"));
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {count: 1, rate: 1, concurrency: 2, "
                              "input: 1, output: 1}\n"),
              HasSubstr("together with concurrency"));
  EXPECT_THAT(engine_mistakes("  batch: {context: 1, sequences: 1}\n  sla: {ttft: 1 s}\n"),
              HasSubstr("sla"));
}

TEST(EngineRuns, TheTextReadsAsTheSame) {
  const Scenario scenario = engine_scenario(
      "  engine: {preset: vllm, max_sequences: 7}\n  sla: {tpot: 9 ms}\n" + few_requests);
  const Scenario again = parse_scenario(to_text(scenario), "", {});
  ASSERT_NE(again.engine_run, nullptr);
  EXPECT_EQ(again.engine_run->engine.options.max_sequences, 7);
  EXPECT_DOUBLE_EQ(again.engine_run->sla.tpot->value, 0.009);
  EXPECT_EQ(again.engine_run->draw.count, 3);
  EXPECT_EQ(again.engine_run->text, scenario.engine_run->text);
}

TEST(EngineRuns, CommandsOfOnePassRefuseThem) {
  const Scenario scenario = engine_scenario("  engine: vllm\n" + few_requests);
  const Inputs inputs = open_inputs(scenario);
  EXPECT_THROW(PolicyPlanner(scenario, inputs, inputs.clusters[0], inputs.systems[0],
                             PolicyPlanner::Options()),
               Error);
}

}  // namespace
}  // namespace moesim
