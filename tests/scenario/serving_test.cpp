// SPDX-License-Identifier: Apache-2.0
// The keys of a pass of serving, and what is said of each mistake.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/scenario/inputs.h"
#include "sim/scenario/scenario_text.h"
#include "tests/error_of.h"
#include "tests/model/whole_model.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Scenario parsed(const std::string& keys) {
  return parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: "
      "deepep-low-latency\n" +
          keys,
      "serving.yaml", {});
}

ServingSpec serving_of(const std::string& keys) { return *parsed(keys).iteration->serving; }

std::string serving_mistakes(const std::string& keys) {
  return error_of([&] { parsed(keys); });
}

TEST(Serving, ADecodeHasOneNewTokenPerSequence) {
  const ServingSpec spec = serving_of("serving: {batch: {context: 4096, sequences: 128}}\n");
  ASSERT_EQ(spec.batch.ranks.size(), 1u);
  EXPECT_EQ(spec.batch.ranks[0], (std::vector<SequenceStep>{{4096, 1, 128, -1}}));
  EXPECT_TRUE(all_decode(spec.batch));
  EXPECT_TRUE(spec.graphs);
}

TEST(Serving, DraftsAreVerifiedWithTheToken) {
  const ServingSpec spec =
      serving_of("serving: {batch: {context: 9, sequences: 2}, drafts: 3, accepted: 1.7}\n");
  EXPECT_EQ(spec.batch.ranks[0].front().tokens, 4);
  EXPECT_EQ(spec.accepted, 1.7);
}

TEST(Serving, APrefillHasAPromptOfWhichSomeIsCached) {
  const ServingSpec spec =
      serving_of("serving: {batch: {prompt: 4096, cached: 1024, sequences: 2}}\n");
  EXPECT_EQ(spec.batch.ranks[0].front(), (SequenceStep{1024, 3072, 2, -1}));
  EXPECT_FALSE(any_decodes(spec.batch));
}

TEST(Serving, HoldsNoTrainingStateAndOverlapsNothingUnlessStated) {
  const Scenario scenario = parsed("serving: {batch: {context: 8, sequences: 1}}\n");
  EXPECT_EQ(scenario.iteration->zero, 0);
  EXPECT_FALSE(scenario.backward);
  EXPECT_EQ(scenario.iteration->places.batch, 5);
  const ServingSpec& spec = *scenario.iteration->serving;
  EXPECT_EQ(spec.overlap, ServingOverlap::none);
  EXPECT_EQ(spec.kv, DataType::bf16);
  EXPECT_EQ(std::pair(spec.drafts, spec.accepted), std::pair(0, 0.0));
  EXPECT_EQ(spec.kv_fraction, 0.9);
}

TEST(Serving, WeightsAreThoseOfTheCheckpointUnlessStated) {
  const std::string batch = "serving: {batch: {context: 8, sequences: 1}";
  EXPECT_EQ(serving_of(batch + "}\n").weights, DataType::mxfp4);
  EXPECT_FALSE(serving_of(batch + "}\n").states_weights);
  EXPECT_EQ(serving_of(batch + ", precision: nvfp4}\n").weights, DataType::fp4);
  EXPECT_EQ(serving_of(batch + ", precision: bf16}\n").weights, DataType::bf16);
  const auto of_model = [&](const std::string& change) {
    return serving_of(batch + "}\nset: [" + change + "]\n").weights;
  };
  EXPECT_EQ(of_model("model.checkpoint=fp8"), DataType::fp8);
  EXPECT_EQ(of_model("model.checkpoint=bf16"), DataType::bf16);
  EXPECT_EQ(of_model("model.checkpoint=int3"), DataType::bf16) << "said when it is opened";
}

TEST(Serving, PrecisionMayBeOfParts) {
  const std::string batch = "serving: {batch: {context: 8, sequences: 1}, precision: ";
  EXPECT_FALSE(serving_of(batch + "nvfp4}\n").quantized);
  const ServingSpec spec = serving_of(batch + "{format: nvfp4, parts: [experts, shared]}}\n");
  EXPECT_EQ(spec.weights, DataType::fp4);
  EXPECT_TRUE(spec.states_weights);
  EXPECT_EQ(spec.quantized, (GemmParts{GemmPart::experts, GemmPart::shared}));
  EXPECT_THAT(serving_mistakes(batch + "{format: mxfp4, parts: [experts]}}\n"),
              HasSubstr("'serving.precision.parts' with mxfp4"));
  EXPECT_THAT(serving_mistakes(batch + "{format: fp8, parts: [attention]}}\n"),
              HasSubstr("'serving.precision.parts' without experts"));
  EXPECT_THAT(serving_mistakes(batch + "{format: fp8, parts: [experts, head]}}\n"),
              HasSubstr("'serving.precision.parts' with head or scores"));
}

TEST(Serving, CachedTokensAreOfAPrompt) {
  EXPECT_THAT(
      serving_mistakes("serving: {batch: {context: 8, cached: 4, sequences: 1}}\n"),
      AllOf(HasSubstr("'serving.batch.cached' without 'prompt'"), HasSubstr("say context")));
  EXPECT_THAT(serving_mistakes("serving: {batch: {prompt: 8, tokens: 4, sequences: 1}}\n"),
              HasSubstr("'serving.batch.tokens' together with 'prompt'"));
  EXPECT_EQ(
      serving_mistakes("serving: {batch: {context: 8, sequences: 1}, drafts: 2, accepted: 2}\n"),
      "");
}

TEST(Serving, RanksMayDiffer) {
  const ServingSpec spec = serving_of(
      "serving:\n  batch:\n    - [{prompt: 100, sequences: 1}, {context: 8, sequences: 3}]\n"
      "    - [{context: 9, tokens: 50, sequences: 1}]\n");
  ASSERT_EQ(spec.batch.ranks.size(), 2u);
  EXPECT_EQ(spec.batch.ranks[0].size(), 2u);
  EXPECT_EQ(spec.batch.ranks[1].front(), (SequenceStep{9, 50, 1, -1}));
}

TEST(Serving, ExpertsOfATensorGroupAreSharedUnlessTheyHaveAnEpDegree) {
  const std::string batch = "serving: {batch: {context: 8, sequences: 1}}\n";
  EXPECT_EQ(parsed("parallel: {tp: 8}\n" + batch).iteration->parallel.etp, 8);
  EXPECT_EQ(parsed("parallel: {tp: 8, ep: 8}\n" + batch).iteration->parallel.etp, 1);
}

TEST(Serving, MistakesSayWhatToDo) {
  const std::string batch = "serving: {batch: {context: 8, sequences: 1}}\n";
  EXPECT_THAT(serving_mistakes("serving: {}\n"), HasSubstr("batch"));
  EXPECT_THAT(serving_mistakes("serving: {batch: {context: 8}}\n"), HasSubstr("sequences"));
  EXPECT_THAT(serving_mistakes("serving: {batch: []}\n"),
              HasSubstr("'serving.batch' is an empty list"));
  EXPECT_THAT(serving_mistakes("serving: {batch: {prompt: 8, context: 4, sequences: 1}}\n"),
              AllOf(HasSubstr("together with 'prompt'"), HasSubstr("a prefill has a prompt")));
  EXPECT_THAT(serving_mistakes("serving: {batch: {prompt: 8, cached: 8, sequences: 1}}\n"),
              HasSubstr("one token of a prompt at least"));
  EXPECT_THAT(serving_mistakes("serving: {batch: {context: 8, sequences: 1}, accepted: 1}\n"),
              HasSubstr("keeps as many drafts as there are"));
  EXPECT_THAT(serving_mistakes("zero: 1\noptimizer: adam\n" + batch),
              AllOf(HasSubstr("'zero' is of training"), HasSubstr("'optimizer' is of training")));
  EXPECT_THAT(serving_mistakes("pass: forward\n" + batch),
              HasSubstr("'serving.batch' says its tokens"));
  EXPECT_THAT(serving_mistakes("parallel: {pp: 2}\n" + batch), HasSubstr("pp 1"));
  EXPECT_THAT(serving_mistakes("parallel: {tp: 8}\nserving: {batch: {context: 8, sequences: 1}, "
                               "attention_ranks: 2}\n"),
              HasSubstr("'serving.attention_ranks' with etp = 8"));
}

TEST(Serving, NumbersHaveTheirRanges) {
  const auto of = [](const std::string& batch, const std::string& more = "") {
    return serving_mistakes("serving: {batch: {" + batch + "}" + more + "}\n");
  };
  EXPECT_THAT(of("context: -1, sequences: 0"),
              AllOf(HasSubstr("sequences' is 0, must be between 1 and 1048576"),
                    HasSubstr("context' is -1, must be between 0 and 16777216")));
  EXPECT_THAT(of("context: 8, tokens: 0, sequences: 1"),
              HasSubstr("is 0, must be between 1 and 16777216"));
  EXPECT_THAT(of("prompt: 0, cached: -1, sequences: 1"),
              AllOf(HasSubstr("prompt' is 0, must be between 1 and 16777216"),
                    HasSubstr("cached' is -1, must be between 0 and 16777216")));
  EXPECT_EQ(of("prompt: 8, cached: 7, sequences: 1"), "");
  const std::string one = "context: 8, sequences: 1";
  EXPECT_THAT(of(one, ", drafts: 16"), HasSubstr("is 16, must be between 0 and 15"));
  EXPECT_THAT(of(one, ", dcp: 0"), HasSubstr("is 0, must be between 1 and 1024"));
  EXPECT_EQ(serving_of("serving: {batch: {" + one + "}}\n").dcp, 1);
  EXPECT_THAT(of(one, ", attention_ranks: 0"), HasSubstr("is 0, must be between 1 and 1048576"));
  EXPECT_THAT(of(one, ", accepted: -1"), HasSubstr("is -1, must be between 0 and 15"));
  EXPECT_THAT(of(one, ", memory_fraction: 0.01"), HasSubstr("must be between 0.05 and 1"));
  EXPECT_THAT(of(one, ", graphs: [4, 2]"), HasSubstr("'serving.graphs' does not ascend"));
  EXPECT_THAT(serving_mistakes("parallel: {cp: 2}\nserving: {batch: {" + one + "}}\n"),
              HasSubstr("'serving' with cp = 2"));
}

TEST(Serving, OverlapFromSomeTokensOn) {
  const std::string batch = "serving: {batch: {context: 8, sequences: 4}, overlap";
  EXPECT_EQ(serving_of(batch + ": two-batch, overlap_from: {decode: 32}}\n").overlap_from,
            (OverlapFrom{32, 0}));
  EXPECT_THAT(serving_mistakes(batch + ": none, overlap_from: {decode: 32}}\n"),
              HasSubstr("'serving.overlap_from' has no effect"));
}

TEST(Serving, KeysOfEnginesNeedRequests) {
  EXPECT_THAT(serving_mistakes("serving: {batch: {context: 8, sequences: 4}, engine: vllm}\n"),
              AllOf(HasSubstr("'serving.engine' is of runs with 'serving.requests'"),
                    HasSubstr("'serving.batch' is one pass")));
  EXPECT_THAT(serving_mistakes("serving: {kv_tokens: 8}\n"),
              HasSubstr("'serving.kv_tokens' is of runs with 'serving.requests'"));
}

TEST(Serving, ListsMustFitTheRanks) {
  const Scenario scenario = parsed(
      "parallel: {ep: 8}\nserving:\n  batch:\n    - [{context: 8, sequences: 1}]\n    - [{context: "
      "9, sequences: 1}]\n");
  try {
    shape_of(*scenario.iteration, 32, 24, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("lists of 2 ranks, the cluster 32"), HasSubstr("serving.yaml:")));
  }
}

TEST(Serving, ListsAreCountedBeforeAnyIsRead) {
  const Scenario scenario = parsed(
      "parallel: {ep: 32}\nserving: {batch: [[{context: 8, sequences: 1}], [{context: 8, "
      "sequences: 1}]]}\n");
  EXPECT_THAT(error_of([&] { open_inputs(scenario); }),
              HasSubstr("serving.batch has lists of 2 ranks, the cluster 32 ranks of attention"));
}

TEST(Serving, GraphsNeedASize) {
  EXPECT_THAT(serving_mistakes("serving: {batch: {context: 8, sequences: 1}, graphs: []}\n"),
              HasSubstr("'serving.graphs' is an empty list"));
}

TEST(Serving, KeysAreSharedByGpusThatHoldTheSame) {
  const auto mistake = [](int tp, int dcp, const std::string& model) -> std::string {
    const Scenario scenario = parsed("parallel: {tp: " + std::to_string(tp) +
                                     ", ep: 8}\nserving: {batch: {context: 8, "
                                     "sequences: 1}, dcp: " +
                                     std::to_string(dcp) + "}\n");
    return error_of([&] { shape_of(*scenario.iteration, 32, shipped_model(model)); });
  };
  EXPECT_EQ(mistake(8, 8, "deepseek-v3"), "");
  EXPECT_THAT(mistake(8, 3, "deepseek-v3"), HasSubstr("does not divide tp = 8"));
  EXPECT_EQ(mistake(8, 2, "qwen3-235b-a22b"), "");
  EXPECT_THAT(mistake(8, 4, "qwen3-235b-a22b"),
              AllOf(HasSubstr("is on 2 of the 8 GPUs"), HasSubstr("serving.dcp: 2")));
  EXPECT_THAT(mistake(2, 2, "qwen3-235b-a22b"), HasSubstr("is on 1 of the 2 GPUs"));
  EXPECT_THAT(mistake(8, 2, "glm-5"), HasSubstr("sparse attention of 'glm-5'"));
}

TEST(Serving, ReadsWhatItWrites) {
  const std::string keys =
      "parallel: {tp: 2, ep: 16}\nserving: {batch: [[{context: 9, sequences: 4}], [{prompt: 70, "
      "cached: 6, sequences: 1}]], precision: fp8, kv: fp8, graphs: [8, 16], drafts: 1, accepted: "
      "0.5, overlap: three-batch, attention_ranks: 3, dcp: 2}\n";
  const Scenario first = parsed(keys);
  const Scenario again = parse_scenario(to_text(first), "again.yaml", {});
  EXPECT_EQ(*again.iteration, *first.iteration);
}

TEST(Serving, RefusesEveryKeyOfTraining) {
  for (const char* training : {"batch: {global: 8}", "pipeline: 1f1b", "recompute: full", "zero: 1",
                               "precision: bf16", "overlap: {gradients: true}", "optimizer: adam",
                               "update_bytes: 4", "collective: ring", "microbatches: {distinct: 1}",
                               "gradient_bytes: 4", "optimizer_bytes: 12", "paged_stash: {}"}) {
    const std::string text = training;
    const std::string key = text.substr(0, text.find(':'));
    EXPECT_THAT(serving_mistakes("serving: {batch: {context: 9, sequences: 2}}\n" + text + "\n"),
                HasSubstr("'" + key + "' is of training, and this is a pass of serving\n"));
  }
}

TEST(Serving, LimitsOfItsSizesAreStated) {
  const auto with = [](const std::string& parallel, const std::string& more = "") {
    return serving_mistakes("parallel: {" + parallel +
                            "}\nserving: {batch: {context: 9, sequences: 2}" + more + "}\n");
  };
  EXPECT_THAT(with("pp: 2"), HasSubstr("'serving' with pp = 2\n"));
  EXPECT_THAT(with("cp: 2"), HasSubstr("'serving' with cp = 2\n"));
  EXPECT_THAT(with("tp: 2, ep: 2, etp: 2", ", attention_ranks: 4"),
              HasSubstr("'serving.attention_ranks' with etp = 2\n"));
  EXPECT_THAT(with("tp: 2, ep: 2, etp: 2", ", attention_ranks: 1"),
              HasSubstr("'serving.attention_ranks' with etp = 2\n"));
  EXPECT_EQ(with("tp: 2, ep: 4"), "");
  EXPECT_EQ(with("tp: 2, ep: 4", ", attention_ranks: 4"), "");
}

TEST(Serving, EtpIsTpUnlessExpertsAreShared) {
  const auto etp = [](const std::string& parallel) {
    return parsed("parallel: {" + parallel + "}\nserving: {batch: {context: 9, sequences: 2}}\n")
        .iteration->parallel.etp;
  };
  EXPECT_EQ(etp("tp: 4, ep: 1"), 4);
  EXPECT_EQ(etp("tp: 4, ep: 2"), 1);
  EXPECT_EQ(etp("tp: 4, ep: 2, etp: 2"), 2);
}

}  // namespace
}  // namespace moesim
