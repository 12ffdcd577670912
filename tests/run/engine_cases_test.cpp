// SPDX-License-Identifier: Apache-2.0
// Runs of engines against the passes that they consist of.
#include "sim/run/engine_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/temporary_folder.h"
#include "sim/run/engine_pool.h"
#include "sim/run/engine_views.h"
#include "sim/run/simulate.h"
#include "sim/serving/engine/engine_options.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

/// GPT-OSS 20B on 8 GPUs.
Scenario on_a_node(const std::string& serving, const std::string& more = "") {
  return parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\n"
      "steps: 3:4\nserving:\n" +
          serving + more,
      "engine.yaml", {});
}

EngineOutcome engine_outcome(const std::string& serving, const std::string& more = "") {
  const Scenario scenario = on_a_node(serving, more);
  const Inputs inputs = open_inputs(scenario);
  return run_engines(scenario, inputs, {.workers = 0}).cases.at(0).outcome;
}

/// 12 layers without a window of 8 heads of 64 keys and 64 values, 2 bytes each.
constexpr std::int64_t per_token = 24576;

Seconds pass_time(const std::string& batch) {
  const Scenario scenario = on_a_node("  batch: " + batch + "\n");
  const Inputs inputs = open_inputs(scenario);
  return simulate(scenario, inputs, {.workers = 0}).cases.at(0).metrics.mean_step();
}

TEST(EngineCases, ARunOfOneStepIsThePass) {
  const EngineOutcome run = engine_outcome(
      "  engine: {preset: vllm, idle_passes: false, intake: 0 s}\n  prices: exact\n"
      "  requests: {count: 8, concurrency: 8, input: 300, output: 1}\n");
  EXPECT_EQ(run.ranks, 8);
  EXPECT_EQ(run.metrics.passes.passes, 1);
  EXPECT_DOUBLE_EQ(run.metrics.ttft.p50, pass_time("{prompt: 300, sequences: 1}").value);
  EXPECT_DOUBLE_EQ(run.metrics.ttft.most, run.metrics.ttft.p50);
}

TEST(EngineCases, DecodesArePassesOfTheirContexts) {
  const EngineOutcome run = engine_outcome(
      "  engine: vllm\n  prices: exact\n"
      "  requests: {count: 8, concurrency: 8, input: 300, output: 3}\n");
  const double sum = pass_time("{context: 300, sequences: 1}").value +
                     pass_time("{context: 301, sequences: 1}").value;
  EXPECT_NEAR(run.metrics.tpot.p50, sum / 2, 1e-12);
}

TEST(EngineCases, ReusedPricesAreNearTheExactOnes) {
  const std::string requests =
      "  engine: {preset: vllm, max_tokens: 512}\n"
      "  requests: {count: 24, concurrency: 12, input: {mean: 200, spread: 100}, output: 12}\n";
  const EngineOutcome exact = engine_outcome("  prices: exact\n" + requests);
  const EngineOutcome reused =
      engine_outcome("  prices: {check_every: 8, exact_passes: 0}\n" + requests);
  EXPECT_NEAR(reused.metrics.tpot.p50 / exact.metrics.tpot.p50, 1, 0.1);
  EXPECT_NEAR(reused.metrics.rates.output / exact.metrics.rates.output, 1, 0.1);
  EXPECT_GT(reused.errors.all().checks, 0);
  EXPECT_EQ(exact.errors.all().checks, 0);
  EXPECT_EQ(exact.simulated, exact.metrics.passes.passes);
  const EngineOutcome few = engine_outcome(requests);
  EXPECT_EQ(few.metrics.tpot.p95, exact.metrics.tpot.p95) << "the first passes are exact";
  EXPECT_EQ(few.simulated, exact.simulated);
}

TEST(EngineCases, MemoryBoundsTheCache) {
  const std::string requests = "  requests: {count: 8, concurrency: 8, input: 64, output: 2}\n";
  const EngineOutcome most = engine_outcome("  engine: vllm\n" + requests);
  const EngineOutcome less = engine_outcome("  engine: vllm\n  memory_fraction: 0.5\n" + requests);
  const Scenario scenario = on_a_node("  engine: vllm\n" + requests);
  const Inputs inputs = open_inputs(scenario);
  const double memory = static_cast<double>(inputs.clusters[0].gpus[0]->memory.value);
  EXPECT_NEAR(static_cast<double>(most.kv_tokens - less.kv_tokens), 0.42 * memory / per_token, 2);
  EXPECT_THROW(engine_outcome("  engine: vllm\n  kv_tokens: 60\n" + requests), Error);
}

TEST(EngineCases, MemoryMayBeAPartOfWhatIsFree) {
  const auto kv_tokens = [](const std::string& memory) {
    return static_cast<double>(
        engine_outcome("  engine: {preset: vllm, memory: " + memory +
                       "}\n  requests: {count: 8, concurrency: 8, input: 64, output: 2}\n")
            .kv_tokens);
  };
  const double all = kv_tokens("{share: 1, of: all}");
  EXPECT_NEAR(kv_tokens("{share: 0.5, of: free}"), 0.5 * all, 1);
}

TEST(EngineCases, APassTellsWhatCacheATokenTakesAndForHowManyThereIsRoom) {
  const Scenario scenario = on_a_node("  batch: {context: 300, sequences: 1}\n");
  const Inputs inputs = open_inputs(scenario);
  const IterationFigures figures =
      *simulate(scenario, inputs, {.workers = 0}).cases.at(0).metrics.iteration;
  EXPECT_EQ(figures.serving->cache_per_token, Bytes(per_token));
  const double part = scenario.iteration->serving->kv_fraction;
  const double free = part * static_cast<double>(figures.fullest.memory.value) -
                      static_cast<double>(figures.fullest.peak.value);
  EXPECT_NEAR(static_cast<double>(figures.serving->free_cache_tokens), free / per_token, 1);
}

TEST(EngineCases, TheFullestStepSaysForHowManyTokensThereIsRoom) {
  const auto room = [](int first, int last) {
    Scenario scenario = on_a_node("  batch: {context: 300, sequences: 1}\n");
    scenario.steps = {first, last};
    const Inputs inputs = open_inputs(scenario);
    return simulate(scenario, inputs, {.workers = 0})
        .cases.at(0)
        .metrics.iteration->serving->free_cache_tokens;
  };
  std::int64_t least = room(2, 3);
  for (int step = 3; step < 8; ++step) least = std::min(least, room(step, step + 1));
  EXPECT_EQ(room(2, 8), least);
  EXPECT_LT(least, std::max(room(2, 3), room(7, 8)));
}

TEST(EngineCases, ADocumentHasEveryFigure) {
  const Scenario scenario = on_a_node(
      "  engine: vllm\n  sla: {ttft: 1 s}\n"
      "  requests: {count: 8, concurrency: 8, input: 64, output: 3}\n",
      "routing: [balanced, recorded]\n");
  const Inputs inputs = open_inputs(scenario);
  const EngineResult result = run_engines(scenario, inputs, {.workers = 2});
  ASSERT_EQ(result.cases.size(), 2U);
  EXPECT_EQ(result.cases[0].name.routing, "balanced");
  const auto json = nlohmann::json::parse(engine_json(scenario, inputs, result.cases, "1"));
  EXPECT_EQ(json.at("step"), "engine");
  EXPECT_EQ(json.at("serving").at("engine"), "vllm");
  for (const auto& c : json.at("cases")) {
    EXPECT_EQ(c.at("requests"), 8);
    EXPECT_GT(c.at("ttft").at("p95_s").get<double>(), 0);
    EXPECT_GT(c.at("tokens_per_s_per_gpu").get<double>(), 0);
    double parts = 0;
    for (const auto& part : c.at("parts")) parts += part.get<double>();
    EXPECT_NEAR(parts, 1, 1e-6) << "parts are all of the time of passes";
  }
  const std::string table = engine_table(scenario, result.cases).text();
  EXPECT_THAT(table, HasSubstr("TTFT p95"));
  EXPECT_THAT(table, HasSubstr("SLA met"));
  EXPECT_THAT(engine_header(scenario, inputs, "1"), HasSubstr("8 requests drawn"));
}

TEST(EngineCases, PoolsMoveKeysAndValues) {
  const EngineOutcome run = engine_outcome(
      "  engine: vllm\n  instances: {prefill: 1, decode: 2}\n"
      "  requests: {count: 16, concurrency: 16, input: 64, output: 4}\n");
  EXPECT_EQ(run.gpus, 24);
  EXPECT_EQ(run.moved_requests, 16);
  EXPECT_EQ(run.moved, Bytes(16 * 2 * 64 * per_token)) << "as many layers have a window of 128";
}

TEST(EngineCases, LossesAreCountedWithWhatTheyCost) {
  const std::string requests =
      "  engine: vllm\n  requests: {count: 8, concurrency: 8, input: 64, output: 40}\n";
  const EngineLosses none = engine_outcome(requests).losses;
  EXPECT_EQ(none.losses + none.restarted + none.kv_tokens, 0);
  EXPECT_EQ(none.time, Seconds(0));
  const EngineLosses lost =
      engine_outcome("  losses: [{at: 50 ms, rank: 3, recovery: 2 s, back: 9 s}]\n" + requests)
          .losses;
  EXPECT_EQ(lost.losses, 1);
  EXPECT_EQ(lost.restarted, 1);  // each rank has one request
  EXPECT_GE(lost.kv_tokens, 64);
  EXPECT_LT(lost.kv_tokens, 64 + 40);
  EXPECT_GE(lost.time.value, 2);
}

/// 3 requests through an instance that computes prompts and two that decode.
std::string apart(const std::string& more) {
  return "  engine: vllm\n  instances: {prefill: 1, decode: 2}\n" + more +
         "  requests: {count: 3, concurrency: 3, input: 300, output: 3}\n";
}

TEST(EngineCases, TransfersTakeTheirBytesOverTheGpuOfTheirSequenceAndTheirLatency) {
  const auto latency = [](const std::string& transfer) {
    return engine_outcome(
               "  engine: vllm\n  prices: exact\n  instances: {prefill: 1, decode: 1}\n"
               "  transfer: {" +
               transfer +
               "}\n"
               "  requests: {count: 1, concurrency: 1, input: 300, output: 2}\n")
        .metrics.latency.p50;
  };
  const double base = latency("bandwidth: 1 GB/s, latency: 1 ms");
  EXPECT_NEAR(latency("bandwidth: 1 GB/s, latency: 3 ms") - base, 2e-3, 1e-9);
  const double bytes = (300.0 + 128) * per_token;  // as many layers have a window
  EXPECT_NEAR(base - latency("bandwidth: 2 GB/s, latency: 1 ms"), bytes / 1e9 / 2, 1e-9);
}

TEST(EngineCases, ThatEndedBeforeASignalAreKept) {
  const Scenario scenario =
      on_a_node("  engine: vllm\n  requests: {count: 1, concurrency: 1, input: 9, output: 2}\n",
                "routing: [balanced, recorded]\n");
  const Inputs inputs = open_inputs(scenario);
  ComparisonOptions options;
  options.keep_finished = true;
  std::vector<FinishedRun> finished;
  options.finished = [&](const FinishedRun& run) {
    finished.push_back(run);
    ::raise(SIGTERM);
  };
  const EngineResult result = run_engines(scenario, inputs, options);
  EXPECT_EQ(result.signal, SIGTERM);
  ASSERT_EQ(result.cases.size(), 2U);
  EXPECT_TRUE(result.cases[0].ran());
  EXPECT_TRUE(result.cases[1].interrupted);
  EXPECT_EQ(result.cases[1].outcome.unsuitable, interrupted_reason);
  ASSERT_EQ(finished.size(), 1U);
  EXPECT_EQ(finished[0].name, "h100-rail deepep-low-latency balanced port");
  EXPECT_EQ(finished[0].number, 1);
  EXPECT_EQ(finished[0].of, 2);
  EXPECT_EQ(finished[0].times, std::vector{Seconds(result.cases[0].outcome.metrics.tpot.p50)});
  const auto json = nlohmann::json::parse(engine_json(scenario, inputs, result.cases, "1"));
  EXPECT_EQ(json.at("interrupted").dump(), R"({"cases":2,"done":1})");
}

TEST(EngineCases, PoolsThatDifferAreOfTheCasesOwnTopologyAndPolicy) {
  const auto cases = [](const std::string& topology, const std::string& policy) {
    const Scenario scenario = parse_scenario(
        "topology: " + topology + "\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: " + policy +
            "\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\nsteps: 3:4\nserving:\n" +
            apart("  decode: {parallel: {ep: 8}}\n"),
        "engine.yaml", {});
    const Inputs inputs = open_inputs(scenario);
    return run_engines(scenario, inputs, {.workers = 0}).cases;
  };
  const auto all = cases("[h100-rail, b200-hgx]", "[deepep-low-latency, alltoall]");
  ASSERT_EQ(all.size(), 4U);
  const auto only = cases("b200-hgx", "alltoall");
  EXPECT_EQ(all[3].name, only[0].name);
  EXPECT_EQ(all[3].outcome.metrics.tpot.p50, only[0].outcome.metrics.tpot.p50);
  for (const int other : {0, 1, 2}) {
    EXPECT_NE(all[static_cast<std::size_t>(other)].outcome.metrics.tpot.p50,
              only[0].outcome.metrics.tpot.p50);
  }
}

TEST(EngineCases, RequestsOfALogComeWithTheirConcurrency) {
  const TemporaryFolder folder;
  EngineRun run;
  run.request_file = folder.path() + "/log.csv";
  std::ofstream(run.request_file) << "arrival,input,output\n0,9,3\n1,8,2\n2,7,1\n";
  run.most_requests = 2;
  run.draw.concurrency = 5;
  const RequestLog log = requests_of(run);
  ASSERT_EQ(log.requests.size(), 2U);
  EXPECT_EQ(log.requests[1].input, 8);
  EXPECT_EQ(log.concurrency, 5);
}

TEST(EngineCases, AModelOfOnlyExpertsHasNoCache) {
  OpenedPool pool(parse_scenario(
      "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\npolicy: alltoall\n"
      "parallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\nsteps: 3:4\nserving:\n  engine: vllm\n"
      "  requests: {count: 1, concurrency: 1, input: 9, output: 1}\n",
      "engine.yaml", {}));
  EXPECT_EQ(pool.prices().exact().sequence_cache().per_token, Bytes(0));
}

TEST(EngineCases, LossesMayComeAtARate) {
  const EngineLosses lost = engine_outcome(
                                "  engine: vllm\n  losses: {every: 60 ms, recovery: 1 ms, back: 2 "
                                "ms}\n  requests: {count: 8, concurrency: 8, input: 64, output: "
                                "40}\n")
                                .losses;
  EXPECT_GT(lost.losses, 1);
  EXPECT_GT(lost.time.value, 0);
}

TEST(EngineCases, SayOnceWhyNoneOfThemCanRun) {
  const Scenario scenario =
      on_a_node("  engine: vllm\n  requests: {count: 1, concurrency: 1, input: 9, output: 1}\n",
                "fidelity: [port, analytic]\n");
  Inputs inputs = open_inputs(scenario);
  inputs.clusters[0].unsuitable = "it is too small";
  EXPECT_THAT([&] { run_engines(scenario, inputs, {.workers = 0}); },
              ::testing::ThrowsMessage<Error>(
                  "error: deepep-low-latency (recorded) on h100-rail was not run: it is too small\n"
                  "error: no case of the comparison can run\n"));
}

TEST(EngineCases, PoolsMayDiffer) {
  const EngineOutcome alike = engine_outcome(apart(""));
  EXPECT_EQ(alike.gpus, 24);
  EXPECT_EQ(alike.moved_requests, 3);
  const EngineOutcome wide =
      engine_outcome(apart("  decode: {parallel: {ep: 16}, set: [topology.nodes=2]}\n"));
  EXPECT_EQ(wide.gpus, 8 + 2 * 16);
  EXPECT_EQ(wide.ranks, 16);
  EXPECT_EQ(wide.moved_requests, 3);
  EXPECT_EQ(wide.moved, alike.moved);
}

TEST(EngineCases, ErrorsOfPricesOfBothPoolsCountAsOftenAsTheyWereChecked) {
  const std::string checked = "  prices: {check_every: 1}\n" + apart("");
  OpenedPool prompts(on_a_node(checked)), decode(on_a_node("  kv_tokens: 4000\n" + checked));
  RequestLog log;
  for (const int input : {90, 300, 700, 1500}) log.requests.push_back({Seconds(0), input, 9});
  const EngineOutcome run =
      run_pools(prompts.engine_run(), {&prompts.prices(), &prompts.engine_run().engine, 1},
                PoolInstances{&decode.prices(), &decode.engine_run().engine, 1}, log, no_progress);
  const PriceErrors a = prompts.prices().errors().all(), b = decode.prices().errors().all();
  const PriceErrors both = run.errors.all();
  const auto of_a = static_cast<double>(a.checks), of_b = static_cast<double>(b.checks);
  ASSERT_GT(of_a, 0);
  ASSERT_GT(of_b, of_a);
  EXPECT_EQ(both.checks, a.checks + b.checks);
  const double part = of_b / (of_a + of_b);
  EXPECT_NEAR(both.mean(), a.mean() + part * (b.mean() - a.mean()), 1e-12);
  EXPECT_NEAR(both.of_sum(), (a.table + b.table) / (a.exact + b.exact) - 1, 1e-12);
  EXPECT_EQ(both.most, std::max(a.most, b.most));
  EXPECT_EQ(run.simulated, prompts.prices().points() + decode.prices().points());
}

TEST(EngineCases, APoolIsOpenedOnTheRoutingThatIsAskedFor) {
  const std::string keys =
      "  engine: vllm\n  requests: {count: 1, concurrency: 1, input: 9, output: 1}\n";
  const std::string both = "routing: [balanced, recorded]\n";
  OpenedPool first(on_a_node(keys, both), RoutingSource::balanced);
  EXPECT_EQ(first.prices().run().routing, RoutingSource::balanced);
  OpenedPool last(on_a_node(keys, both));
  EXPECT_EQ(last.prices().run().routing, RoutingSource::recorded);
}

TEST(EngineCases, ADecodePoolNeedsInstances) {
  EXPECT_THAT(
      [] {
        return error_of([&] {
          on_a_node(
              "  engine: vllm\n  decode: {parallel: {ep: 16}}\n"
              "  requests: {count: 3, concurrency: 3, input: 300, output: 3}\n");
        });
      }(),
      HasSubstr("'serving.decode' needs instances that only decode"));
}

TEST(EngineCases, TheHostIssuesPromptsThatNoGraphRuns) {
  const std::string requests =
      "  prices: exact\n  requests: {count: 8, concurrency: 8, input: 300, output: 2}\n";
  const EngineOutcome graph = engine_outcome(
      "  engine: {preset: vllm, intake: 0 s, graph_prompt_tokens: 300}\n" + requests);
  const EngineOutcome eager = engine_outcome(
      "  engine: {preset: vllm, intake: 0 s, graph_prompt_tokens: 299}\n" + requests);
  EXPECT_GT(eager.metrics.ttft.p50, 1.2 * graph.metrics.ttft.p50);
  EXPECT_DOUBLE_EQ(eager.metrics.tpot.p50, graph.metrics.tpot.p50);
}

}  // namespace
}  // namespace moesim
