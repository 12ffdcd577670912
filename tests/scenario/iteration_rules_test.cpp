// SPDX-License-Identifier: Apache-2.0
// Rules of the keys of whole iterations: what each wrong combination breaks, at which line.
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
