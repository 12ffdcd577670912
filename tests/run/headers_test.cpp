// SPDX-License-Identifier: Apache-2.0
// What the lines above a table say of iterations and of passes of serving.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>

#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/run/engine_views.h"
#include "sim/run/result_file.h"
#include "sim/scenario/engine_run.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Of two stages of four GPUs.
std::string iteration_lines(const std::vector<Override>& more) {
  std::vector<Override> flags = {{"topology", "h100-rail", "t"},
                                 {"model", "gpt-oss-20b", "m"},
                                 {"trace", "tiny-moe-train", "r"},
                                 {"policy", "alltoall", "p"},
                                 {"batch", "{global: 16, micro: 1, sequence: 512}", "b"},
                                 {"set", "topology.nodes=1", "n"}};
  flags.insert(flags.end(), more.begin(), more.end());
  const Scenario scenario = read_scenario("", flags);
  return result_header(scenario, open_inputs(scenario), "1");
}

TEST(Headers, OfAnIterationSayHowItIsCutAndUpdated) {
  const std::string plain = iteration_lines({{"parallel", "{pp: 2, ep: 4}", "g"}});
  EXPECT_THAT(plain, HasSubstr("tp 1 cp 1 pp 2 dp 4, experts: etp 1 ep 4 edp 1; "));
  EXPECT_THAT(plain, HasSubstr("16 sequences of 512 tokens in 4 microbatches per replica"));
  EXPECT_THAT(plain, HasSubstr("# software megatron-core (by default"));
  EXPECT_THAT(plain, HasSubstr(": per parameter 4 bytes of gradients, 12 of optimizer state; "));
  EXPECT_THAT(plain, Not(HasSubstr("distinct")));
  EXPECT_THAT(plain, Not(HasSubstr("# compressed keys")));
  EXPECT_THAT(plain, Not(HasSubstr("Muon")));
  EXPECT_THAT(plain, Not(HasSubstr("dense gradients are summed")));
  const std::string more = iteration_lines({{"parallel", "{pp: 2, ep: 4, vpp: 2}", "g"},
                                            {"pipeline", "interleaved", "i"},
                                            {"microbatches", "{distinct: 2}", "d"},
                                            {"zero", "0", "z"},
                                            {"collective", "tree", "c"},
                                            {"optimizer", "muon", "o"}});
  EXPECT_THAT(more, HasSubstr("pp 2 (x2 chunks) dp 4"));
  EXPECT_THAT(more, HasSubstr("in 4 microbatches per replica, 2 of them distinct"));
  EXPECT_THAT(more, HasSubstr("# Muon updates matrices"));
  EXPECT_THAT(more, HasSubstr("up and down two trees of nodes"));
}

TEST(Headers, OfAnIterationSayHowOftenAShortTraceIsPlayed) {
  const auto lines = [](const std::string& trace) {
    const Scenario scenario = read_scenario(
        "", {{"topology", "h100-rail", "t"},
             {"model", "gpt-oss-20b", "m"},
             {"policy", "alltoall", "p"},
             {"parallel", "{pp: 2, ep: 4}", "g"},
             {"batch", "{global: 16, micro: 1, sequence: 512}", "b"},
             {"set", "topology.nodes=1", "n"},
             {trace == "none" ? "routing" : "synth", trace == "none" ? "balanced" : trace, "r"}});
    return result_header(scenario, open_inputs(scenario), "1");
  };
  // A microbatch of four replicas has 2048 tokens; the trace has these in its only step.
  EXPECT_THAT(lines("{layers: 4, tokens: 512, sequences: 1}"),
              HasSubstr("; the trace is short: each recorded step is played 4 times\n"));
  EXPECT_THAT(lines("{layers: 4, tokens: 1024, sequences: 2}"),
              HasSubstr("; the trace is short: each recorded step is played 2 times\n"));
  EXPECT_THAT(lines("{layers: 4, tokens: 2048, sequences: 4}"), Not(HasSubstr("is short")));
  EXPECT_THAT(lines("none"), Not(HasSubstr("is short")));
}

// Four replicas of 512 tokens: 81,920 tokens are 40 microbatches, of which an iteration takes four.
TEST(Headers, OfAnIterationBeyondTheTraceSaySo) {
  const auto lines = [](const std::string& steps) {
    return iteration_lines({{"parallel", "{pp: 2, ep: 4}", "g"}, {"steps", steps, "s"}});
  };
  EXPECT_THAT(lines("9:10"), Not(HasSubstr("again")));
  EXPECT_THAT(lines("9:11"),
              HasSubstr("; iterations from 10 on take the 40 microbatches of the trace again\n"));
}

TEST(Headers, OfBalancedIterationsDoNotSayHowATraceIsPlayed) {
  const auto with = [](const std::string& routing) {
    return iteration_lines(
        {{"parallel.ep", "8", "e"}, {"batch.micro", "2", "b"}, {"routing", routing, "r"}});
  };
  EXPECT_THAT(with("[recorded, balanced]"), HasSubstr("the trace is short"));
  EXPECT_THAT(with("balanced"), Not(HasSubstr("the trace is short")));
}

TEST(Headers, SayOnWhichGpusMxfp8IsFp8) {
  EXPECT_THAT(iteration_lines({{"parallel.ep", "8", "e"}, {"precision", "mxfp8", "p"}}),
              HasSubstr("ZeRO 1, mxfp8 (fp8 on h100-measured)\n"));
}

TEST(Headers, OfAPassSayHowOftenAShortTraceIsPlayed) {
  const auto lines = [](const std::string& trace) {
    const Scenario scenario = parse_scenario(
        "topology: h100-rail\nmodel: gpt-oss-20b\npolicy: deepep-low-latency\n"
        "parallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\nsynth: {layers: 4, " +
            trace + "}\nserving:\n  batch: {prompt: 300, sequences: 1}\n",
        "pass.yaml", {});
    return result_header(scenario, open_inputs(scenario), "1");
  };
  const std::string short_one = "; it is short: each recorded token is played up to ";
  EXPECT_THAT(lines("tokens: 1200, sequences: 4"), HasSubstr(short_one + "2 times\n"));
  EXPECT_THAT(lines("tokens: 600, sequences: 2"), HasSubstr(short_one + "4 times\n"));
  EXPECT_THAT(lines("tokens: 2400, sequences: 8"), Not(HasSubstr("is short")));
}

TEST(Headers, OfAModelWithOneExpertSayWhereItIs) {
  EXPECT_THAT(iteration_lines({{"parallel", "{pp: 2, ep: 1}", "g"},
                               {"routing", "balanced", "r"},
                               {"trace", "null", "t"},
                               {"set", "model.experts=1", "e"},
                               {"set", "model.top_k=1", "k"}}),
              HasSubstr("pp 2 dp 4, experts: etp 1 ep 1 edp 4; "));
}

TEST(Headers, OfStepsSayInHowManyExpertGradientsAreSummed) {
  const auto lines = [](const std::string& ep, const std::string& accumulate) {
    const Scenario scenario =
        scenario_of("alltoall", {{"ep", ep, "e"}, {"accumulate", accumulate, "a"}});
    return result_header(scenario, open_inputs(scenario), "1");
  };
  // Every second step sums: of 3, 4 and 5 the first and the last. Of every third only the last.
  EXPECT_THAT(lines("4", "2"),
              HasSubstr("(2 groups; expert gradients are summed over them in 2 of 3 steps)"));
  EXPECT_THAT(lines("4", "3"),
              HasSubstr("(2 groups; expert gradients are summed over them in 1 of 3 steps)"));
  EXPECT_THAT(lines("4", "1"),
              HasSubstr("(2 groups; expert gradients are summed over them every step)"));
  EXPECT_THAT(lines("8", "2"), Not(HasSubstr("group")));
}

TEST(Headers, AreOfTheClustersThatCanRun) {
  const Scenario scenario = scenario_of("alltoall", {{"topology", "[h100-rail, h200-rail]", "t"}});
  Inputs inputs = open_inputs(scenario);
  inputs.clusters[0].unsuitable = "it is too small";
  const std::string text = result_header(scenario, inputs, "1");
  EXPECT_THAT(text, HasSubstr("# transport nccl-p2p on h200-rail: "));
  EXPECT_THAT(text, HasSubstr("\n# h200-rail: 8 GPUs on 1 host, "));
  EXPECT_THAT(text, Not(HasSubstr("h100-rail")));
}

TEST(Headers, SayWhenGradientsAreSummed) {
  const auto lines = [](const std::string& gradients, const std::string& parameters) {
    return iteration_lines({{"parallel", "{pp: 2, ep: 4}", "g"},
                            {"overlap.gradients", gradients, "o"},
                            {"overlap.parameters", parameters, "o"}});
  };
  EXPECT_THAT(lines("false", "false"), HasSubstr("gradients are summed after the passes\n"));
  EXPECT_THAT(lines("true", "false"),
              HasSubstr("gradients are summed during the backward passes\n"));
  EXPECT_THAT(lines("true", "true"),
              HasSubstr("gradients are summed and parameters gathered during the passes\n"));
}

Scenario serving_scenario(const std::string& keys) {
  return parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\n"
      "steps: 3:4\nserving:\n  " +
          keys + "\n",
      "serving.yaml", {});
}

std::string serving_lines(const std::string& batch, const std::string& more = "") {
  const Scenario scenario = serving_scenario("batch: " + batch + more);
  return result_header(scenario, open_inputs(scenario), "1");
}

TEST(Headers, OfAPassSayWhatItsBatchHoldsAndWhichTokensItTakes) {
  const std::string decode = serving_lines("{context: 300, sequences: 2}");
  EXPECT_THAT(decode, HasSubstr("#   2 sequences of 1 new token after 300 on each of 8 ranks\n"));
  EXPECT_THAT(decode, HasSubstr("# the trace has no decode"));
  const std::string prompts = serving_lines("{prompt: 300, sequences: 1}");
  EXPECT_THAT(prompts, HasSubstr("#   1 sequence of 300 new tokens on each of 8 ranks\n"));
  EXPECT_THAT(prompts, Not(HasSubstr("# the trace has no decode")));
  EXPECT_THAT(prompts, Not(HasSubstr("drafts")));
  EXPECT_THAT(prompts, HasSubstr("4 recorded layers, in turn for the model's 24"));
  EXPECT_THAT(serving_lines("{context: 300, sequences: 2}", "\n  drafts: 3\n  accepted: 1.5"),
              HasSubstr(", 3 drafts, 1.5 kept on average, drafting left out (the model has no "
                        "layer of multi-token prediction)\n"));
}

/// The lines of a changed run.
std::string engine_lines(const std::function<void(EngineRun&)>& change) {
  Scenario scenario = serving_scenario(
      "engine: {preset: vllm}\n  requests: {count: 8, concurrency: 8, input: 300, output: 3}");
  const Inputs inputs = open_inputs(scenario);  // before the change names a log that is not there
  auto run = std::make_shared<EngineRun>(*scenario.engine_run);
  change(*run);
  scenario.engine_run = run;
  return engine_header(scenario, inputs, "1");
}

/// A log of 9 requests, the last of which is long.
std::string nine_requests(const TemporaryFolder& folder) {
  std::string lines;
  for (int i = 0; i < 9; ++i) {
    lines += fmt::format("{{\"timestamp\": {}, \"input_length\": {}, \"output_length\": 3}}\n", i,
                         i == 8 ? 200'000 : 30);
  }
  write_file(folder.path() + "/log.jsonl", lines);
  return folder.path() + "/log.jsonl";
}

TEST(Headers, OfAPassSayWhatItDoesNot) {
  const std::string one = "{context: 300, sequences: 1}";
  EXPECT_THAT(serving_lines(one, "\n  graphs: [1, 2]"), HasSubstr(", CUDA graphs, "));
  EXPECT_THAT(serving_lines("{context: 300, sequences: 3}", "\n  graphs: [1, 2]"),
              HasSubstr(", no CUDA graph (none is captured for more than 2 tokens), "));
  EXPECT_THAT(serving_lines(one, "\n  overlap: two-batch"),
              HasSubstr(", overlap two-batch (not in this pass: no rank has two sequences)\n"));
  EXPECT_THAT(serving_lines("{context: 300, sequences: 3}",
                            "\n  overlap: two-batch\n  overlap_from: {decode: 4}"),
              HasSubstr("(not in this pass: a rank has 3 tokens, fewer than overlap_from)\n"));
  EXPECT_THAT(serving_lines("{context: 300, sequences: 4}",
                            "\n  overlap: two-batch\n  overlap_from: {decode: 4}"),
              HasSubstr(", overlap two-batch\n"));
}

TEST(Headers, SayWhichSequencesAreTooLong) {
  const char* line =
      "# sequences of up to 200000 tokens: more than the 131072 of the model's "
      "config; engines refuse them unless told otherwise\n";
  EXPECT_THAT(serving_lines("{context: 199999, sequences: 1}"), HasSubstr(line));
  EXPECT_THAT(serving_lines("{context: 131071, sequences: 1}"),
              Not(HasSubstr("the model's config")));
}

TEST(Headers, OfAnEngineSayItsLimitsPoolsAndRequests) {
  const std::string one = engine_lines([](EngineRun& run) {
    run.engine.options.max_sequences = no_limit;
    run.engine.options.max_tokens = 512;
    run.draw.input = {LengthLaw::Kind::uniform, 300, 100};
    run.draw.output = {LengthLaw::Kind::fixed, 20};
    run.draw.concurrency = 4;
    run.draw.seed = 5;
  });
  EXPECT_THAT(one, HasSubstr(": any number of sequences and 512 tokens per pass and rank, "));
  EXPECT_THAT(one, HasSubstr("; times of requests, rates of generated tokens\n"));
  EXPECT_THAT(one, HasSubstr("# not modelled: sampling on the CPU")) << "the preset has an intake";
  const std::string shared = engine_lines([](EngineRun& run) {
    run.engine.tokens_of_all_ranks = 8192;
    run.engine.options.intake = Seconds(0);
  });
  EXPECT_THAT(shared, HasSubstr(" tokens per pass and rank, 8192 tokens of all ranks, "));
  EXPECT_THAT(shared, HasSubstr("# not modelled: tokenizer, sampling"));
  EXPECT_THAT(one, HasSubstr("# 8 requests drawn (seed 5): 300 (uniform, 200 to 400) tokens in, "
                             "20 out, 4 in flight\n"));
  for (const char* absent : {"compute prompts", "behind a router", "SLA", "percentiles"}) {
    EXPECT_THAT(one, Not(HasSubstr(absent)));
  }
  EXPECT_THAT(
      engine_lines([](EngineRun& run) {
        run.draw.concurrency = 4;
        run.draw.client = benchmark_client;
      }),
      HasSubstr("in flight, their client takes 900 us to prepare and 200 us to send each\n"));
  EXPECT_THAT(engine_lines([](EngineRun& run) { run.draw.concurrency = 99; }),
              HasSubstr("3 out, all at once: 99 may be in flight\n"));
  const std::string pools = engine_lines([](EngineRun& run) {
    run.instances = 2;
    run.decode_instances = 3;
    run.draw.concurrency = 0;
    run.draw.arrivals = {ArrivalLaw::Kind::gamma, 2.5};
    run.sla = {Seconds(1), Seconds(0.02)};
    run.warmup = 7;
  });
  EXPECT_THAT(pools, HasSubstr("# 2 instances compute prompts, 3 decode; keys and values move over "
                               "the cluster's links\n"));
  EXPECT_THAT(pools, HasSubstr("2.5 per second (gamma)\n"));
  EXPECT_THAT(pools, HasSubstr("# SLA of a request: TTFT 1 s, TPOT 20 ms\n"));
  EXPECT_THAT(pools, HasSubstr("# the first 7 requests are left out of percentiles\n"));
  const TemporaryFolder folder;
  const auto recorded = [&](std::int64_t most) {
    return engine_lines([&](EngineRun& run) {
      run.instances = 2;
      run.draw.concurrency = 4;
      run.request_file = nine_requests(folder);
      run.most_requests = most;
      run.router.kind = RouterOptions::Kind::prefix;
    });
  };
  EXPECT_THAT(recorded(8), HasSubstr("# 2 instances behind a router (prefix)\n"));
  EXPECT_THAT(recorded(8), HasSubstr("log.jsonl, the first 8, 4 in flight\n"));
  EXPECT_THAT(recorded(8), Not(HasSubstr("the model's config")));
  EXPECT_THAT(recorded(8), HasSubstr("# router prefix has no effect: no request has a prefix"));
  EXPECT_THAT(recorded(5000),
              HasSubstr("log.jsonl, all 9: fewer than the 5000 asked for, 4 in flight\n"));
  EXPECT_THAT(recorded(5000), HasSubstr("# sequences of up to 200003 tokens: more than"));
}

TEST(Headers, OfAnEngineSayTheLawsOfItsRequests) {
  const auto requests = [](const RequestDraw& draw) {
    const std::string text = engine_lines([&](EngineRun& run) { run.draw = draw; });
    const auto begin = text.find(" drawn (seed");
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  using Arrivals = ArrivalLaw::Kind;
  EXPECT_EQ(
      requests({.count = 1,
                .seed = 3,
                .arrivals = {Arrivals::poisson, 2},
                .input = {LengthLaw::Kind::lognormal, 300, 50},
                .output = {LengthLaw::Kind::fixed, 7},
                .client = {}}),
      " drawn (seed 3): 300 (lognormal, standard deviation 50) tokens in, 7 out, 2 per second "
      "(Poisson)");
  LengthLaw bounded{LengthLaw::Kind::lognormal, 500, 200};
  bounded.least = 2;
  bounded.most = 400;
  EXPECT_THAT(requests({.count = 2,
                        .arrivals = {Arrivals::even, 1},
                        .input = bounded,
                        .output = {LengthLaw::Kind::fixed, 7},
                        .client = {}}),
              HasSubstr(": 500 (lognormal, standard deviation 200, at least 2, at most 400) tokens "
                        "in, "));
  EXPECT_EQ(requests({.count = 2,
                      .arrivals = {Arrivals::even, 0.5},
                      .input = {},
                      .output = {LengthLaw::Kind::uniform, 9, 2},
                      .client = {}}),
            " drawn (seed 0): 1 tokens in, 9 (uniform, 7 to 11) out, 0.5 per second (evenly)");
}

TEST(Headers, OfAnEngineSayHowItBatchesAndMoves) {
  const TemporaryFolder folder;
  const std::string text = engine_lines([&](EngineRun& run) {
    EngineOptions& engine = run.engine.options;
    engine.name = "mine";
    engine.version = "1.2";
    engine.max_sequences = 7;
    engine.max_tokens = no_limit;
    engine.chunked_prefill = engine.mixed = false;
    run.decode_instances = 3;
    run.transfer_bandwidth = BytesPerSecond(5e9);
    run.sla.tpot = Seconds(0.03);
    run.request_file = nine_requests(folder);
    run.draw.concurrency = 0;
  });
  EXPECT_THAT(text, HasSubstr("log.jsonl, as they came\n"));
  EXPECT_THAT(text, HasSubstr("# engine mine (1.2): 7 sequences and any number of tokens per pass "
                              "and rank, whole prompts, passes of prompts first, router "));
  EXPECT_THAT(text, HasSubstr("# 1 instance computes prompts, 3 decode; keys and values move at 5 "
                              "GB/s per GPU\n"));
  EXPECT_THAT(text, HasSubstr("# SLA of a request: TPOT 30 ms\n"));
  const std::string other = engine_lines([](EngineRun& run) {
    EngineOptions& engine = run.engine.options;
    engine.name = engine.version = "";
    engine.chunked_prefill = engine.mixed = true;
    run.sla.ttft = Seconds(2);
  });
  EXPECT_THAT(other, HasSubstr("# engine of the scenario: "));
  EXPECT_THAT(other, HasSubstr(", chunked prefill, prompts with answers, router "));
  EXPECT_THAT(other, HasSubstr("# SLA of a request: TTFT 2 s\n"));
}

}  // namespace
}  // namespace moesim
