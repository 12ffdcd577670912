// SPDX-License-Identifier: Apache-2.0
// Keys of whole iterations: what they mean, the rule that each wrong combination breaks, and flags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario_text.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string inputs_text =
    "topology: h100-rail\nmodel: deepseek-v3\ntrace: /no/such\npolicy: megatron\n";

Scenario read_keys(const std::string& keys, const std::vector<Override>& flags = {}) {
  const auto path = std::filesystem::path(testing::TempDir()) / "iteration_test.yaml";
  write_file(path.string(), inputs_text + keys);
  const Scenario scenario = read_scenario(path.string(), flags);
  std::filesystem::remove(path);
  return scenario;
}

IterationSpec spec_of(const std::string& keys, const std::vector<Override>& flags = {}) {
  return read_keys(keys, flags).iteration.value();
}

/// The mistakes of a scenario of an iteration with these keys.
std::string mistakes_of(const std::string& keys, const std::vector<Override>& flags = {}) {
  return error_of([&] { read_keys(keys, flags); });
}

const std::string batch = "batch: {global: 64, sequence: 4096}\n";

TEST(Iteration, IsNoneWithoutParallelAndBatch) { EXPECT_FALSE(read_keys("").iteration); }

TEST(Iteration, HasMegatronsDefaults) {
  const IterationSpec spec = spec_of(batch);
  EXPECT_EQ(spec.parallel, ParallelSizes{});
  EXPECT_EQ(spec.global_batch, 64);
  EXPECT_EQ(spec.micro_batch, 1);
  EXPECT_EQ(spec.sequence, 4096);
  EXPECT_EQ(spec.pipeline, PipelineKind::one_f_one_b);
  EXPECT_TRUE(spec.recompute.empty());
  EXPECT_EQ(spec.zero, 1);
  EXPECT_EQ(spec.precision, Precision());
  EXPECT_EQ(std::tuple(spec.dp_replicate, spec.update_bytes, spec.distinct_microbatches),
            std::tuple(1, 0, 0));
  EXPECT_EQ(spec.overlap, (OverlapSpec{.gradients = true, .parameters = true}));
  EXPECT_EQ(spec.routing, std::vector{RoutingSource::recorded});
}

TEST(Iteration, ReadsAPublishedRun) {
  // DeepSeek-V3 on 1,024 H100 (arXiv 2603.07685): TP2 PP8 EP64 VPP4, its layout has 32 parts.
  const Scenario scenario = read_keys(
      "parallel: {tp: 2, pp: 8, ep: 64, etp: 1, layout: 'Et*3|(tt|)*29m|L'}\n"
      "batch: {global: 8192, micro: 1, sequence: 4096}\n"
      "pipeline: combined-interleaved\n"
      "recompute: [mla_up_proj, mlp]\n"
      "precision: fp8-blockwise\n"
      "overlap: {gradients: true, parameters: true, delay_wgrad: true}\n"
      "routing: [balanced, recorded]\n"
      "microbatches: {distinct: 4}\n"
      "optimizer: muon\n"
      "collective: two-level\n");
  const IterationSpec& spec = *scenario.iteration;
  EXPECT_EQ(scenario.ep, 64);
  EXPECT_EQ(spec.parallel, (ParallelSizes{.tp = 2, .pp = 8, .vpp = 4, .ep = 64, .etp = 1}));
  EXPECT_EQ(spec.pipeline, PipelineKind::combined_interleaved);
  EXPECT_EQ(spec.recompute, (Recompute{RecomputeModule::mla_up_proj, RecomputeModule::mlp}));
  EXPECT_EQ(spec.precision, Precision{.format = TrainingPrecision::fp8_blockwise});
  EXPECT_EQ(spec.overlap, (OverlapSpec{true, true, true, true}));
  EXPECT_EQ(spec.routing, (std::vector{RoutingSource::balanced, RoutingSource::recorded}));
  EXPECT_EQ(spec.distinct_microbatches, 4);
  EXPECT_EQ(spec.optimizer, OptimizerKind::muon);
  EXPECT_EQ(scenario.optimizer_bytes, 8) << "a moment less than Adam's 12";
  EXPECT_EQ(spec.collective, ReplicaCollective::two_level);

  const IterationShape shape = shape_of(spec, 1024, 61, 1);
  EXPECT_EQ(shape.grid.size(ParallelAxis::dp), 64);
  EXPECT_EQ(shape.microbatches, 128);
  EXPECT_EQ(shape.pipeline.positions(), 32);
  EXPECT_EQ(shape.layers.layers(0), 3);
}

TEST(Iteration, WrittenDownAndReadAgainIsTheSame) {
  for (const std::string keys :
       {"", "parallel: {tp: 2, pp: 4, vpp: 2, etp: 1, dp: 2, order: tp-cp-ep-pp-dp}\n",
        "parallel: {pp: 2, layout: Ett|ttL}\nzero: 3\nprecision: mxfp8\n",
        "zero: 0\ncollective: tree\n", "update_bytes: 4\n",
        "precision: {format: nvfp4, parts: [mamba, experts], bf16_layers: {first: 1, last: 14}}\n",
        "precision: {format: mxfp8, bf16_weight_gradients: true}\n",
        "precision: {format: mxfp8, parts: [experts, scores]}\nfused_grouped_mlp: true\n",
        "parallel: {ep: 2, dp_replicate: 4}\nzero: 2\n",
        "parallel: {pp: 2, layout: E|t|t|L}\npipeline: dualpipev\n",
        "parallel: {pp: 4, ep: 2}\npipeline: v-half\n",
        "parallel: {pp: 4, first_stage_layers: 2, last_stage_layers: 3}\nrecompute: [mlp, full]\n",
        "recompute: [moe_act, layernorm]\nrouting: balanced\nmicrobatches: {distinct: 2}\n",
        "paged_stash: {rank_capacity: 2, factor: 1.25, page: 32}\n",
        "recompute: [layernorm]\noffload: [core_attn, attn_proj, expert_fc1]\n",
        "parallel: {pp: 4, embedding_as_layer: true, loss_as_layer: true}\nep: 2\n",
        "parallel: {pp: 4, ep: 2}\npipeline: combined-1f1b\noverlap: {all_to_all: false}\n",
        "host: {per_kernel: 10 us, graphs: [attn, moe_router], waits_for: [stage-transfer]}\n",
        "host: {graphs: [attn], grouped: true}\n"}) {
    const Scenario scenario = read_keys(keys + batch);
    const auto path = std::filesystem::path(testing::TempDir()) / "iteration_again.yaml";
    write_file(path.string(), to_text(scenario));
    const Scenario again = read_scenario(path.string(), {});
    std::filesystem::remove(path);
    EXPECT_EQ(again.iteration, scenario.iteration) << keys;
    EXPECT_EQ(again.ep, scenario.ep) << keys;
  }
}

TEST(Iteration, PrecisionIsAFormatOrWhereItIsUsed) {
  const Precision precision =
      spec_of("precision: {format: mxfp8, parts: [experts], bf16_layers: {last: 3}}\n" + batch)
          .precision;
  EXPECT_EQ(precision, (Precision{.format = TrainingPrecision::mxfp8,
                                  .parts = {GemmPart::experts},
                                  .last_bf16_layers = 3}));
  EXPECT_EQ(precision.text(), "mxfp8 (experts; last 3 bf16)");
  EXPECT_EQ(spec_of("precision: mxfp8\n" + batch).precision.text(), "mxfp8");
  EXPECT_THAT(mistakes_of("precision: {format: bf16, parts: [experts]}\n" + batch),
              AllOf(HasSubstr("'precision.parts' with a format of 16 bits or more"),
                    HasSubstr("fp8, fp8-blockwise, mxfp8 and nvfp4")));
  EXPECT_THAT(mistakes_of("precision: {format: mxfp8, parts: [expert]}\n" + batch),
              HasSubstr("did you mean 'experts'?"));
  EXPECT_THAT(mistakes_of("precision: {parts: [experts]}\n" + batch), HasSubstr("'format'"));
}

TEST(Iteration, NoMoreLayersAreInBf16ThanTheModelHas) {
  const IterationSpec spec =
      spec_of(batch + "precision: {format: mxfp8, bf16_layers: {first: 60, last: 2}}\n");
  const MoeModel model = read_moe_model(data_file("models/moe", "deepseek-v3"));
  try {
    shape_of(spec, 16, model);
    FAIL() << "62 of 61 layers in bf16";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("precision.bf16_layers are 62 of 61 layers"));
    EXPECT_EQ(error.diagnostics().front().line, 6);
  }
}

TEST(Iteration, HostOfTheScenarioIsThatOfEveryGpu) {
  std::vector<Override> flags;
  for (const char* flag : {"topology=h100-rail", "model=qwen3-30b-a3b", "policy=megatron",
                           "batch.global=64", "batch.sequence=4096", "routing=balanced"}) {
    flags.push_back(parse_override(flag));
  }
  const auto host_of = [&](const char* flag) {
    auto given = flags;
    if (flag != nullptr) given.push_back(parse_override(flag));
    return open_inputs(read_scenario("", given)).clusters.at(0).gpus.at(0)->host;
  };
  EXPECT_TRUE(host_of(nullptr).takes_time());  // its software's
  EXPECT_FALSE(host_of("host=none").takes_time());
  EXPECT_DOUBLE_EQ(host_of("host.per_kernel=10us").per_kernel.value, 10e-6);
}

TEST(Iteration, OfBalancedRoutingAloneNeedsNoTrace) {
  const auto read = [](const std::string& routing) {
    std::vector<Override> flags;
    for (const char* flag : {"topology=h100-rail", "model=qwen3-30b-a3b", "policy=megatron",
                             "batch.global=64", "batch.sequence=4096"}) {
      flags.push_back(parse_override(flag));
    }
    flags.push_back(parse_override("routing=" + routing));
    return read_scenario("", flags);
  };
  const Scenario scenario = read("balanced");
  EXPECT_TRUE(scenario.trace.empty());
  EXPECT_THAT(to_text(scenario), testing::Not(HasSubstr("trace")));
  const Inputs inputs = open_inputs(scenario);
  EXPECT_EQ(inputs.trace.step_count(), 0);
  EXPECT_EQ(inputs.trace.info().experts, 128);
  EXPECT_THROW(read("[balanced, recorded]"), Error);
}

TEST(Iteration, FlagsAndSetReachTheKeys) {
  const std::string keys = "parallel: {tp: 2, ep: 4}\n" + batch;
  const IterationSpec spec = spec_of(keys, {{"parallel.tp", "4", "--tp 4"},
                                            {"ep", "8", "--ep 8"},
                                            {"set", "parallel.dp=2", "s"},
                                            {"set", "zero=2", "s"},
                                            {"set", "overlap.gradients=true", "s"}});
  EXPECT_EQ(spec.parallel.tp, 4);
  EXPECT_EQ(spec.parallel.ep, 8);
  EXPECT_EQ(spec.parallel.dp, 2);
  EXPECT_EQ(spec.zero, 2);
  EXPECT_TRUE(spec.overlap.gradients);
  // Only flags make an iteration of a file of steps.
  const IterationSpec flagged = spec_of("ep: 2\n", {{"parallel.pp", "2", "--pp 2"},
                                                    {"batch.global", "8", "--global-batch 8"},
                                                    {"batch.sequence", "16", "--sequence 16"}});
  EXPECT_EQ(flagged.parallel.pp, 2);
  EXPECT_EQ(flagged.parallel.ep, 2);
}

TEST(Iteration, EveryMistakeIsSaidAtItsLine) {
  EXPECT_THAT(mistakes_of("parallel: {tp: 0, layuot: E}\nbatch: {global: 64}\nzero: 4\n"),
              AllOf(HasSubstr(":5:16: error: 'parallel.tp' is 0, must be between 1 and 1048576\n"),
                    HasSubstr(":5:19: error: unknown key 'layuot' in 'parallel'\n"),
                    HasSubstr("hint: did you mean 'layout'?\n"),
                    HasSubstr(":6:8: error: 'batch' lacks the key 'sequence'\n"),
                    HasSubstr(":7:7: error: 'zero' is 4, must be between 0 and 3\n")));
  EXPECT_THAT(mistakes_of(batch, {{"parallel.tp", "x", "--tp x"}}), HasSubstr("--tp x: error"));
}

TEST(Iteration, WrongCombinationsNameTheirRule) {
  const auto of = [](const std::string& keys) { return mistakes_of(keys + batch); };
  EXPECT_THAT(mistakes_of("parallel: {tp: 2}\n"), HasSubstr("batch"));
  EXPECT_THAT(mistakes_of("zero: 2\n"), HasSubstr("'zero' belongs to a whole iteration"));
  EXPECT_THAT(of("parallel: {vpp: 2}\n"), HasSubstr("several chunks need pp > 1"));
  EXPECT_THAT(of("parallel: {order: tp-xp}\n"), HasSubstr("has no axis 'xp'"));
  EXPECT_THAT(of("parallel: {ep: 2}\nep: 2\n"), HasSubstr("'ep' together with 'parallel.ep'"));
  EXPECT_THAT(of("parallel: {dp: 3}\n"), HasSubstr("micro x dp must divide the global batch"));
  EXPECT_THAT(of("parallel: {tp: 3}\n"), HasSubstr("tp x cp must divide it"));
  EXPECT_THAT(mistakes_of("parallel: {cp: 2}\nbatch: {global: 4, sequence: 6}\n"),
              HasSubstr("2 x cp where cp > 1"));
  EXPECT_THAT(
      of("parallel: {pp: 2, layout: 'Et|x|L'}\n"),
      AllOf(HasSubstr(":5:"), HasSubstr("'parallel.layout', character 4: 'x' is not a part")));
  EXPECT_THAT(of("parallel: {pp: 2, layout: 'Et|t|L'}\n"),
              HasSubstr("3 virtual stages, which pp = 2 does not divide"));
  EXPECT_THAT(of("parallel: {pp: 2, vpp: 2, layout: 'Et|tL'}\n"),
              HasSubstr("'parallel.vpp' together with 'parallel.layout'"));
  EXPECT_THAT(of("parallel: {pp: 4}\npipeline: interleaved\n"),
              HasSubstr("'pipeline: interleaved' with 1 chunk per stage"));
  EXPECT_THAT(of("parallel: {pp: 4, vpp: 2}\npipeline: zb1p\n"),
              HasSubstr("'pipeline: zb1p' with 2 chunks per stage"));
  EXPECT_THAT(of("parallel: {pp: 3}\npipeline: dualpipe\n"), HasSubstr("pp must be even"));
  EXPECT_THAT(of("parallel: {pp: 2, layout: Et|tL}\npipeline: dualpipev\n"),
              HasSubstr("2 x pp virtual stages"));
  EXPECT_THAT(of("parallel: {pp: 4}\npipeline: combined-1f1b\n"), HasSubstr("with ep = 1"));
  EXPECT_THAT(of("parallel: {pp: 4, ep: 2}\npipeline: combined-1f1b\nrecompute: [full]\n"),
              HasSubstr("'recompute: full' with 'pipeline: combined-1f1b'"));
  EXPECT_THAT(of("parallel: {pp: 4, ep: 2}\npipeline: combined-1f1b\nrecompute: moe\n"),
              HasSubstr("'recompute: moe' with"));
  EXPECT_THAT(of("overlap: {all_to_all: true}\n"),
              HasSubstr("'overlap.all_to_all' with 'pipeline: 1f1b'"));
  EXPECT_THAT(of("overlap: {delay_wgrad: true}\n"),
              HasSubstr("'overlap.delay_wgrad' without 'overlap.all_to_all'"));
  EXPECT_THAT(of("overlap: {gradients: false, parameters: true}\n"), HasSubstr("overlap both"));
  EXPECT_THAT(of("overlap: {gradients: true, parameters: true}\nzero: 0\n"),
              HasSubstr("overlap both"));
  EXPECT_THAT(of("routing: [balanced, balanced]\n"), HasSubstr("'routing' has 'balanced' twice"));
  const std::string two = "parallel: {dp_replicate: 2, pp: 4}\n";
  EXPECT_THAT(of(two + "zero: 0\n"), HasSubstr("'parallel.dp_replicate' with 'zero: 0'"));
  EXPECT_THAT(of(two + "optimizer: muon\n"),
              HasSubstr("'parallel.dp_replicate' with 'optimizer: muon'"));
  EXPECT_THAT(of(two + "pipeline: dualpipe\n"),
              HasSubstr("'parallel.dp_replicate' with 'pipeline: dualpipe'"));
  EXPECT_EQ(of(two), "");
  EXPECT_THAT(of("optimizer: muon\nzero: 2\n"), HasSubstr("'optimizer: muon' with 'zero: 2'"));
  EXPECT_EQ(of("optimizer: muon\nzero: 1\n"), "");
  EXPECT_THAT(of("collective: tree\nzero: 1\n"), HasSubstr("'collective: tree' with 'zero: 1'"));
  EXPECT_THAT(of("recompute: [mla_up]\n"), HasSubstr("mla_up_proj"));
  EXPECT_THAT(of("tokens_per_rank: 4\n"), HasSubstr("'tokens_per_rank' is of steps"));
  EXPECT_THAT(of("accumulate: 4\n"), HasSubstr("'accumulate' is of steps"));
}

TEST(Iteration, StagesHaveTheChunksThatTheirScheduleTakes) {
  const auto of = [](const std::string& keys) {
    const IterationSpec spec = spec_of(keys + batch);
    return std::tuple(spec.pipeline, spec.parallel.pp, spec.parallel.vpp);
  };
  EXPECT_EQ(of(""), std::tuple(PipelineKind::one_f_one_b, 1, 1));
  EXPECT_EQ(of("parallel: {pp: 4, vpp: 2}\n"), std::tuple(PipelineKind::interleaved, 4, 2));
  EXPECT_EQ(of("parallel: {pp: 4, vpp: 2}\npipeline: interleaved\n"),
            std::tuple(PipelineKind::interleaved, 4, 2));
  EXPECT_EQ(of("parallel: {pp: 2, layout: E|t|t|L}\npipeline: dualpipev\n"),
            std::tuple(PipelineKind::dualpipev, 2, 1));
  for (const std::string key : {"vpp: 2", "first_stage_layers: 1", "last_stage_layers: 1",
                                "embedding_as_layer: true", "loss_as_layer: true"}) {
    EXPECT_THAT(mistakes_of("parallel: {pp: 2, layout: Et|tL, " + key + "}\n" + batch),
                HasSubstr("'parallel." + key.substr(0, key.find(':')) +
                          "' together with 'parallel.layout'"));
  }
  EXPECT_THAT(mistakes_of("parallel: {pp: 2, layout: 'xt|L'}\n" + batch),
              HasSubstr("'parallel.layout', character 1: 'x' is not a part"));
  EXPECT_THAT(mistakes_of("parallel: {order: tp-xp}\n" + batch), HasSubstr("'parallel.order': "));
}

TEST(Iteration, BatchesAreDividedByTheRanksThatShareThem) {
  const auto of = [](const std::string& parallel, int global, int sequence) {
    return mistakes_of("parallel: {" + parallel + "}\nbatch: {global: " + std::to_string(global) +
                       ", sequence: " + std::to_string(sequence) + "}\n");
  };
  EXPECT_EQ(of("tp: 1", 63, 1), "");
  EXPECT_THAT(of("dp: 2", 63, 1), HasSubstr("'batch.global' is 63 with micro batches of 1 for dp"));
  EXPECT_EQ(of("cp: 2", 1, 8), "");
  EXPECT_THAT(of("cp: 2", 1, 6), HasSubstr("'batch.sequence' is 6 with tp = 1 and cp = 2"));
  EXPECT_EQ(of("tp: 4, cp: 2", 1, 16), "");
  EXPECT_THAT(of("tp: 4, cp: 2", 1, 12), HasSubstr("'batch.sequence' is 12 with tp = 4"));
}

TEST(Iteration, MergedPassesOverlapExchangesOfExperts) {
  const auto of = [](const std::string& keys) { return mistakes_of(keys + batch); };
  const std::string merged = "pipeline: combined-1f1b\n";
  EXPECT_EQ(of("parallel: {pp: 4, ep: 2}\n" + merged), "");
  EXPECT_EQ(of("parallel: {pp: 4}\n" + merged + "overlap: {all_to_all: false}\n"), "");
  EXPECT_THAT(of("parallel: {pp: 4, vpp: 2}\npipeline: combined-interleaved\n"),
              HasSubstr("'pipeline: combined-interleaved' with ep = 1"));
  EXPECT_EQ(of("overlap: {gradients: true, parameters: true}\n"), "");
}

TEST(Iteration, NumbersHaveTheirRanges) {
  const auto of = [](const std::string& keys) { return mistakes_of(keys + batch); };
  EXPECT_THAT(of("parallel: {first_stage_layers: -1}\n"),
              HasSubstr("first_stage_layers' is -1, must be between 0 and 1048576"));
  EXPECT_THAT(mistakes_of("batch: {global: 0, sequence: 0}\n"),
              AllOf(HasSubstr("'batch.global' is 0, must be between 1 and 1073741824"),
                    HasSubstr("'batch.sequence' is 0, must be between 1 and 1073741824")));
  EXPECT_THAT(of("update_bytes: -1\n"), HasSubstr("is -1, must be between 0 and 1024"));
  EXPECT_THAT(of("gradient_bytes: 1025\n"), HasSubstr("is 1025, must be between 0 and 1024"));
  EXPECT_THAT(of("optimizer_bytes: -1\n"), HasSubstr("is -1, must be between 0 and 1024"));
  EXPECT_THAT(of("microbatches: {distinct: 0}\n"),
              HasSubstr("is 0, must be between 1 and 1048576"));
  EXPECT_THAT(of("ep: 0\n"), HasSubstr("'ep' is 0, must be between 1 and 1048576"));
  EXPECT_THAT(mistakes_of("ep: 0\n"), HasSubstr("'ep' is 0, must be between 1 and 1048576"));
  EXPECT_EQ(mistakes_of("batch: {global: 64, sequence: 4097}\n"), "");
  EXPECT_THAT(mistakes_of("tokens_per_rank: 0\n"), HasSubstr("between 1 and 1073741824"));
  EXPECT_THAT(mistakes_of("repeat: 0\n"),
              HasSubstr("'repeat' is 0, must be between 1 and 1048576"));
  EXPECT_THAT(mistakes_of("warmup: -1\n"), HasSubstr("is -1, must be between 0 and 1048576"));
  EXPECT_THAT(mistakes_of("layers: [-1]\n"), HasSubstr("is -1, must be between 0 and 1048576"));
  EXPECT_THAT(mistakes_of("accumulate: 0\n"), HasSubstr("is 0, must be between 1 and 1048576"));
}

TEST(Iteration, StepsAreRangesOfSomeAndLayersDiffer) {
  for (const char* const wrong : {"3:3", "4:3", "x", "3:", ":3", "-1", "3:4x", "1073741824"}) {
    EXPECT_THAT(mistakes_of(std::string("steps: '") + wrong + "'\n"),
                HasSubstr(std::string("'steps' cannot be '") + wrong + "'"));
  }
  const auto steps = [](const std::string& text) {
    const StepRange range = read_keys("steps: '" + text + "'\n").steps;
    return std::pair(range.first, range.last);
  };
  EXPECT_EQ(steps("0"), std::pair(0, 1));
  EXPECT_EQ(steps("2:9"), std::pair(2, 9));
  EXPECT_EQ(steps("all"), std::pair(StepRange().first, StepRange().last));
  EXPECT_EQ(read_keys("layers: [4, 0, 2]\n").layers, (std::vector{0, 2, 4}));
  EXPECT_THAT(mistakes_of("layers: [4, 2, 4]\n"), HasSubstr("'layers' has layer 4 twice"));
  EXPECT_THAT(mistakes_of("layers: []\n"), HasSubstr("'layers' is an empty list"));
  EXPECT_THAT(mistakes_of("accumulate: some\n"), HasSubstr("'accumulate' cannot be 'some'"));
  EXPECT_EQ(read_keys("accumulate: never\n").accumulate, 0);
  EXPECT_EQ(read_keys("accumulate: 1048576\n").accumulate, 1 << 20);
  EXPECT_EQ(read_keys("warmup: 1048576\n").warmup, 1 << 20);
  EXPECT_EQ(read_keys("layers: [1048576, 0]\n").layers, (std::vector{0, 1 << 20}));
  EXPECT_EQ(steps("0:1073741823"), std::pair(0, (1 << 30) - 1));
  EXPECT_EQ(read_keys("").accumulate, 1);
  EXPECT_THAT(mistakes_of("warmup: 1\nsteps: 0:3\n"), HasSubstr("'warmup' has no effect"));
  EXPECT_EQ(mistakes_of("warmup: 1\nsteps: 1:3\n"), "");
  EXPECT_EQ(mistakes_of("warmup: 0\nsteps: 0:3\n"), "");
}

TEST(Iteration, OnAClusterBreaksFurtherRules) {
  const auto of = [](const std::string& keys, int gpus, int layers) {
    return error_of([&] { shape_of(spec_of(keys + batch), gpus, layers, 0); });
  };
  EXPECT_EQ(of("parallel: {pp: 4}\n", 16, 8), "");
  EXPECT_THAT(of("parallel: {pp: 3}\n", 16, 8), HasSubstr("tp x cp x pp must divide"));
  EXPECT_THAT(of("parallel: {pp: 4}\n", 12, 8),
              HasSubstr("a global batch of 64 cannot be cut into micro batches of 1 for 3"));
  EXPECT_THAT(of("parallel: {pp: 4}\npipeline: dualpipe\n", 64, 8),
              HasSubstr("4 microbatches are fewer than twice the 4 pipeline stages"));
  EXPECT_THAT(of("parallel: {pp: 4}\n", 16, 3), HasSubstr("3 layers on pp 4"));
  EXPECT_THAT(of("parallel: {pp: 4, first_stage_layers: 1}\n", 16, 8),
              HasSubstr("7 layers cannot be shared evenly by 3"));
}

TEST(Iteration, FurtherRulesNameTheLineOfTheirKey) {
  const auto of = [](const std::string& keys, int gpus) {
    return error_of([&] { shape_of(spec_of(keys), gpus, 8, 0); });
  };
  const std::string parallel = "parallel: {pp: 4}\n";
  EXPECT_THAT(of(parallel + batch, 18), HasSubstr("iteration_test.yaml:5: error: 18 GPUs"));
  EXPECT_THAT(of(batch + parallel, 18), HasSubstr("iteration_test.yaml:6: error: 18 GPUs"));
  EXPECT_THAT(of(parallel + batch, 12), HasSubstr("iteration_test.yaml:6: error: a global batch"));
  EXPECT_THAT(of(parallel + "\npipeline: dualpipe\n" + batch, 64),
              HasSubstr("iteration_test.yaml:7: error: dualpipe"));
  EXPECT_THAT(of("parallel: {pp: 4, first_stage_layers: 1}\n" + batch, 16),
              HasSubstr("iteration_test.yaml:5: error: 7 layers"));
  EXPECT_EQ(spec_of(parallel + batch), spec_of(batch + parallel));
}

TEST(Iteration, DualPipeVPutsTwoPartsOnEveryStage) {
  const IterationShape shape =
      shape_of(spec_of("parallel: {pp: 2}\npipeline: dualpipev\n" + batch), 2, 8, 0);
  EXPECT_EQ(shape.pipeline.positions(), 4);
  EXPECT_EQ(shape.layers.positions(), 4);
  EXPECT_EQ(shape.pipeline.place(0, 3).stage, 0);
}

}  // namespace
}  // namespace moesim
