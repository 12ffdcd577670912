// SPDX-License-Identifier: Apache-2.0
// The keys of a run of an engine, and what is said of each mistake.
#include "sim/scenario/engine_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/policy_planner.h"
#include "sim/scenario/scenario_text.h"
#include "tests/error_of.h"
#include "tests/scenario/engine_scenarios.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

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
  EXPECT_EQ(run.draw.shared_prefix, 0);
  const EngineRun plain =
      *engine_scenario(
           "  engine: vllm\n  requests: {count: 1, concurrency: 1, input: {mean: 9}, "
           "output: 4}\n")
           .engine_run;
  EXPECT_EQ(std::tuple(plain.draw.input.mean, plain.draw.input.spread, plain.draw.seed),
            std::tuple(9.0, 0.0, std::uint64_t{0}));
  EXPECT_EQ(plain.draw.input.kind, LengthLaw::Kind::lognormal);
  EXPECT_EQ(std::pair(plain.draw.output.mean, plain.draw.output.kind),
            std::pair(4.0, LengthLaw::Kind::fixed));
  EXPECT_EQ(plain.warmup, 0);
  EXPECT_FALSE(plain.sla.ttft || plain.sla.tpot);
  const ArrivalLaw arrivals =
      engine_scenario("  engine: vllm\n  requests: {count: 1, rate: 2, input: 9, output: 4}\n")
          .engine_run->draw.arrivals;
  EXPECT_EQ(std::pair(arrivals.kind, arrivals.variation),
            std::pair(ArrivalLaw::Kind::poisson, 1.0));
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

TEST(EngineRuns, KeysBelowAPresetsNameAreAHint) {
  const auto flagged = [](const std::string& key, const std::string& value) {
    parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
        "policy: deepep-low-latency\nserving:\n  engine: vllm\n" +
            few_requests,
        "engine.yaml", {{"serving.engine." + key, value, ""}});
  };
  EXPECT_THAT(error_of([&] { flagged("preset", "sglang"); }),
              HasSubstr("only a preset: --set serving.engine=sglang"));
  EXPECT_THAT(error_of([&] { flagged("max_tokens", "512"); }),
              HasSubstr("--set 'serving.engine={preset: vllm, max_tokens: 512}'"));
}

TEST(EngineRuns, APresetSaysWhichBatchesOverlap) {
  const auto from = [](const std::string& keys) {
    return engine_scenario("  overlap: two-batch\n" + keys + few_requests)
        .iteration->serving->overlap_from;
  };
  EXPECT_EQ(from("  engine: vllm\n"), (OverlapFrom{32, 512}));
  EXPECT_EQ(from("  engine: sglang\n"), OverlapFrom{});
  EXPECT_EQ(from("  engine: vllm\n  overlap_from: {decode: 64}\n"), (OverlapFrom{64, 0}));
}

TEST(EngineRuns, OnlyGammaArrivalsVary) {
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {count: 1, rate: 2, arrivals: poisson, "
                              "variation: 3, input: 9, output: 4}\n"),
              HasSubstr("variation' has no effect: arrivals are poisson"));
}

TEST(EngineRuns, FixedLengthsHaveNoSpread) {
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {count: 1, concurrency: 1, output: 4, "
                              "input: {mean: 9, law: fixed, spread: 3}}\n"),
              HasSubstr("input.spread' has no effect: the law is fixed"));
}

TEST(EngineRuns, AWrittenScenarioStatesNoMemoryThatThePresetRules) {
  const auto memory = [](const std::string& keys) {
    const Scenario scenario = engine_scenario("  engine: vllm\n" + few_requests + keys);
    const std::string text = to_text(scenario);
    const EngineMemory again = parse_scenario(text, "again.yaml", {}).engine_run->engine.memory;
    EXPECT_EQ(again.share, scenario.engine_run->engine.memory.share);
    return std::pair(again.share, text.find("memory_fraction") != std::string::npos);
  };
  EXPECT_EQ(memory(""), std::pair(0.92, false));
  EXPECT_EQ(memory("  memory_fraction: 0.8\n"), std::pair(0.8, true));
}

TEST(EngineRuns, RequestsOfAFileAreAsManyAsItHasOrFewer) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/log.jsonl", "{}\n");
  const auto most = [&](const std::string& count) {
    return engine_scenario("  engine: vllm\n  drafts: 3\n  requests: {file: " + folder.path() +
                           "/log.jsonl" + count + "}\n");
  };
  EXPECT_EQ(most("").engine_run->most_requests, 0);
  const Scenario scenario = most(", count: 7");
  EXPECT_EQ(scenario.engine_run->most_requests, 7);
  EXPECT_EQ(scenario.engine_run->request_file, folder.path() + "/log.jsonl");
  // Until it runs, every rank decodes a token and its drafts of one sequence.
  EXPECT_EQ(scenario.iteration->serving->batch.ranks,
            (std::vector<std::vector<SequenceStep>>{{{1, 4, 1, -1}}}));
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

TEST(EngineRuns, ClientsOfClosedLoopsAreNamedOrTimed) {
  const auto requests = [](const std::string& more) {
    return "  engine: vllm\n  requests: {count: 1, input: 1, output: 1, " + more + "}\n";
  };
  const auto client = [&](const std::string& of) {
    const std::string more = "concurrency: 1, client: " + of;
    return engine_scenario(requests(more)).engine_run->draw.client;
  };
  EXPECT_EQ(client("benchmark").prepare, benchmark_client.prepare);
  EXPECT_EQ(client("{prepare: 2 ms}").prepare, Seconds(2e-3));
  EXPECT_EQ(client("{prepare: 2 ms}").send, Seconds{});
  EXPECT_THAT(engine_mistakes(requests("rate: 1, client: benchmark")),
              HasSubstr("'serving.requests.client' without concurrency"));
  EXPECT_THAT(engine_mistakes(requests("concurrency: 1, client: many")), HasSubstr("benchmark"));
}

TEST(EngineRuns, PassesArePricedAsStated) {
  const auto priced = [](const std::string& prices) {
    const EngineRun run = *engine_scenario("  engine: vllm\n" + prices + few_requests).engine_run;
    return std::tuple(run.exact_prices, run.prices.per_octave, run.prices.check_every);
  };
  const PriceTableOptions usual;
  EXPECT_EQ(priced(""), std::tuple(false, usual.per_octave, usual.check_every));
  EXPECT_EQ(priced("  prices: reused\n"), std::tuple(false, usual.per_octave, usual.check_every));
  EXPECT_TRUE(std::get<0>(priced("  prices: exact\n")));
  EXPECT_EQ(priced("  prices: {per_octave: 3, check_every: 9}\n"), std::tuple(false, 3, 9));
}

TEST(EngineRuns, GraphsAndMemoryOfThePassAreTheEngines) {
  const auto options = [](const std::string& keys) {
    return engine_scenario("  engine: vllm\n" + keys + few_requests).engine_run->engine;
  };
  EXPECT_FALSE(options("").options.graph_sizes.empty());
  EXPECT_TRUE(options("  graphs: false\n").options.graph_sizes.empty());
  EXPECT_THAT(options("  graphs: [8, 16]\n").options.graph_sizes, ElementsAre(8, 16));
  EXPECT_EQ(options("  memory_fraction: 0.5\n").memory.share, 0.5);
}

TEST(EngineRuns, LogsAreNextToTheirScenario) {
  const TemporaryFolder folder;
  write_file(folder.path() + "/log.jsonl", "{}\n");
  const auto log_of = [&](const std::string& file) {
    return parse_scenario(
               "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: "
               "alltoall\nserving: {engine: vllm, requests: {file: " +
                   file + "}}\n",
               folder.path() + "/s.yaml", {})
        .engine_run->request_file;
  };
  EXPECT_EQ(log_of("log.jsonl"), folder.path() + "/log.jsonl");
  EXPECT_THAT(engine_mistakes("  engine: vllm\n  requests: {file: /dev/null, count: 0}\n"),
              HasSubstr("is 0, must be between 1 and 16777216"));
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

TEST(EngineRuns, NumbersHaveTheirRanges) {
  const auto of = [](const std::string& keys) {
    return engine_mistakes("  engine: vllm\n" + keys + few_requests);
  };
  const auto drawn = [](const std::string& keys) {
    return engine_mistakes("  engine: vllm\n  requests: {concurrency: 1, " + keys + "}\n");
  };
  const std::string lengths = "input: 1, output: 1, ";
  EXPECT_THAT(drawn(lengths + "count: 0"), HasSubstr("is 0, must be between 1 and 16777216"));
  EXPECT_THAT(drawn(lengths + "count: 1, seed: -1"), HasSubstr("is -1, must be between 0 and 9"));
  EXPECT_THAT(drawn(lengths + "count: 1, shared_prefix: -1"),
              HasSubstr("is -1, must be between 0 and 1073741824"));
  EXPECT_THAT(drawn("count: 1, output: 1, input: 0"),
              HasSubstr("is 0, must be between 1 and 1073741824"));
  EXPECT_THAT(drawn("count: 1, output: 1, input: {mean: 0.5, spread: -1}"),
              testing::AllOf(HasSubstr("mean' is 0.5, must be between 1 and"),
                             HasSubstr("spread' is -1, must be")));
  EXPECT_THAT(drawn("count: 1, output: 1, input: {mean: 5, least: 7, most: 6}"),
              HasSubstr("has least 7 above most 6"));
  EXPECT_EQ(drawn("count: 1, output: 1, input: {mean: 5, least: 7, most: 7}"), "");
  EXPECT_THAT(of("  kv_tokens: 0\n"), HasSubstr("is 0, must be between 1 and 1073741824"));
  EXPECT_THAT(of("  warmup_requests: -1\n"), HasSubstr("is -1, must be between 0 and 16777216"));
  EXPECT_THAT(of("  instances: 0\n"), HasSubstr("is 0, must be between 1 and 4096"));
  EXPECT_THAT(of("  instances: {prefill: 0, decode: 0}\n"),
              testing::AllOf(HasSubstr("prefill' is 0, must be between 1 and 4096"),
                             HasSubstr("decode' is 0, must be between 1 and 4096")));
  EXPECT_THAT(of("  prices: {per_octave: 0, check_every: -1}\n"),
              testing::AllOf(HasSubstr("is 0, must be between 1 and 64"),
                             HasSubstr("is -1, must be between 0 and 1073741824")));
  EXPECT_THAT(of("  losses: [{at: 1 s, recovery: 1 s, instance: -1, rank: -1, ranks: 0}]\n"),
              testing::AllOf(HasSubstr("instance' is -1, must be between 0 and 4096"),
                             HasSubstr("rank' is -1, must be between 0 and 1048576"),
                             HasSubstr("ranks' is 0, must be between 1 and 1048576")));
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

TEST(EngineRun, TakesTheKernelsOfEnginesOfTheSameGpu) {
  const auto gpu = [](const std::string& topology, const std::string& step) {
    const Scenario scenario = parse_scenario(
        "topology: " + topology + "\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nset: " +
            "[topology.nodes=1]\npolicy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\n" + step,
        "gpu.yaml", {});
    return open_inputs(scenario).clusters.at(0).gpus.at(0)->name;
  };
  const std::string serves = "serving: {batch: {context: 9, sequences: 1}}\n";
  const std::string trains = "batch: {micro: 1, global: 8, sequence: 512}\n";
  EXPECT_EQ(gpu("b200-hgx", serves), "b200-measured");
  EXPECT_EQ(gpu("b200-hgx", trains), "b200-training");
  EXPECT_EQ(gpu("h100-rail", serves), "h100-measured");
}

}  // namespace
}  // namespace moesim
