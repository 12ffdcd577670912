// SPDX-License-Identifier: Apache-2.0
// Keys of whole iterations: what they mean, and flags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario_text.h"
#include "tests/error_of.h"
#include "tests/scenario/iteration_files.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

}  // namespace
}  // namespace moesim
