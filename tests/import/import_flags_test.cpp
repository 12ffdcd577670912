// SPDX-License-Identifier: Apache-2.0
// What flags say and files do not, and the numbers that files say.
#include <gmock/gmock.h>

#include "sim/trace/npy.h"
#include "tests/error_of.h"
#include "tests/import/told.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ExpertsOfTheFlags, AreAskedForBeforeAFileIsRead) {
  for (const char* const kind :
       {"sglang-recorder", "sglang-routes", "vllm-routes", "trtllm-routes", "megatron-trace",
        "megatron-routes", "router-lists", "verl", "nemo-rl", "hf-logits", "core12345", "flame",
        "esft", "npz", "npy", "moe-infinity"}) {
    EXPECT_EQ(
        told_of(kind, {{"a.npy", "no array"}}, [](ImportOptions& options) { options.experts = 0; }),
        "error: the number of experts is not known\nhint: give --model or --experts\n")
        << kind;
  }
}

TEST(NumbersOfTheFlags, HaveTheirRange) {
  const auto with = [](const std::function<void(ImportOptions&)>& change) {
    return told_of("core12345", {{"a.json", R"([{"1": [[0]]}])"}}, [&](ImportOptions& options) {
      options.top_k = 1, options.moe_layers = {};
      change(options);
    });
  };
  EXPECT_EQ(with([](auto& o) { o.experts = 1; }), "top 1 [1] 1: 0");
  EXPECT_EQ(with([](auto& o) { o.experts = 65535; }), "top 1 [1] 1: 0");
  EXPECT_EQ(with([](auto& o) { o.experts = 65536; }),
            "error: experts is 65536; it is from 1 to 65535\n");
  EXPECT_EQ(with([](auto& o) { o.experts = -1; }), "error: experts is -1; it is from 1 to 65535\n");
  EXPECT_EQ(with([](auto& o) { o.experts = 1, o.top_k = 2; }),
            "error: top-k 2 exceeds the 1 experts\n");
  EXPECT_EQ(with([](auto& o) { o.top_k = 0; }), "top 1 [1] 1: 0");
  EXPECT_EQ(with([](auto& o) { o.top_k = -1; }), "error: top-k is -1\n");
  EXPECT_EQ(with([](auto& o) { o.micro_batch = -1; }),
            "error: --micro-batch is -1\nhint: the sequences of a microbatch, from 1\n");
  EXPECT_EQ(with([](auto& o) { o.inputs = {}; }), "error: there is nothing to import\n");
}

TEST(LayersOfCore12345, AreFromZeroToAHundredThousand) {
  const auto layer = [](const std::string& name) {
    return told_of("core12345", {{"a.json", R"([{")" + name + R"(": [[0, 1]]}])"}},
                   [](ImportOptions& options) { options.moe_layers = {}; });
  };
  EXPECT_EQ(layer("0"), "top 2 [1] 0: 0 1");
  EXPECT_EQ(layer("100000"), "top 2 [1] 100000: 0 1");
  for (const std::string name : {"100001", "-1", "1x", ""}) {
    EXPECT_EQ(layer(name), "error: '" + name + "' is not a layer number\n");
  }
  const std::string forty(40, '7');
  EXPECT_EQ(layer(forty + "8"), "error: '" + forty + "' is not a layer number\n");
}

TEST(LayersOfHarmoeny, AreNumberedUpToAHundredThousand) {
  const auto layer = [](const std::string& number) {
    return told_of("harmoeny",
                   {{"data.json", R"({"num_experts": 8, "world_size": 1})"},
                    {"0/moe_layer-" + number + ".csv",
                     "iteration,tokens,expert distribution\n0,2,\"[1, 1, 0, 0, 0, 0, 0, 0]\"\n"}},
                   [](ImportOptions& options) { options.moe_layers = {5}; });
  };
  EXPECT_EQ(layer("0"), "top 2 [1] 5: 0 1 rank 0");
  EXPECT_EQ(layer("100000"), "top 2 [1] 5: 0 1 rank 0");
  EXPECT_EQ(layer("100001"), "error: is not named moe_layer-<number>.csv\n");
}

TEST(ExpertsOfTheFiles, AreAtMostTheLargestIds) {
  const auto trtllm = [](const std::string& experts, const std::string& top_k) {
    return told_of(
        "trtllm",
        {{"meta_info.json",
          fmt::format(R"({{"num_experts": {}, "num_experts_per_token": {}}})", experts, top_k)}});
  };
  EXPECT_THAT(trtllm("65535", "2"), StartsWith("error: has 65535 experts but the flags say 8\n"));
  EXPECT_EQ(trtllm("65536", "2"), "error: has no number 'num_experts'\n");
  EXPECT_THAT(trtllm("8", "65535"), StartsWith("error: has 65535 experts per token but"));
  EXPECT_EQ(trtllm("8", "65536"), "error: has no number 'num_experts_per_token'\n");
  EXPECT_THAT(trtllm("8", "2"), StartsWith("error: has no rank<r>_raw.safetensors\n"));
  const auto ultraep = [](const std::string& experts) {
    return told_of("ultraep", {{"a.manifest.json", R"({"schema": "ultra_ep_trace_v1", )"
                                                   R"("num_global_logical_experts": )" +
                                                       experts + "}"}});
  };
  EXPECT_THAT(ultraep("65535"), StartsWith("error: has 65535 experts but the flags say 8\n"));
  EXPECT_EQ(ultraep("65536"), "error: has no sound 'num_global_logical_experts'\n");
  EXPECT_EQ(ultraep("8"), "error: has no <trace id>.chunk<n>.npz\n");
  const auto harmoeny = [](const std::string& experts, const std::string& ranks) {
    return told_of(
        "harmoeny",
        {{"data.json", fmt::format(R"({{"num_experts": {}, "world_size": {}}})", experts, ranks)}});
  };
  EXPECT_THAT(harmoeny("65535", "1"), StartsWith("error: has 65535 experts but the flags say 8\n"));
  EXPECT_EQ(harmoeny("65536", "1"), "error: has no sound 'num_experts'\n");
  EXPECT_EQ(harmoeny("8", "65535"), "error: has no folder of rank 0\n");
  EXPECT_EQ(harmoeny("8", "65536"), "error: has no sound 'world_size'\n");
}

/// The phase of a recording of formats.py.
Phase phase_of_kind(const std::string& kind) {
  const ScratchFolder scratch;
  import_trace(kind, options_of(formats() + "/" + kind, scratch / "out"));
  return RoutingTrace::open(scratch / "out").info().phase;
}

TEST(PhasesOfRecordings, AreWhatTheirRecorderRuns) {
  EXPECT_EQ(phase_of_kind("esft"), Phase::prefill);
  EXPECT_EQ(phase_of_kind("flame"), Phase::training);
  EXPECT_EQ(phase_of_kind("gpt-oss"), Phase::decode);
  // Those of whole requests are none of one phase.
  for (const char* const kind : {"trtllm-routes", "megatron-routes", "vllm-routes", "core12345"}) {
    const ScratchFolder scratch;
    auto options = options_of(formats() + "/" + kind, scratch / "out");
    options.passes = Phase::decode;
    EXPECT_THAT(error_of([&] { import_trace(kind, options); }), HasSubstr("holds no tokens"))
        << kind;
    options.passes = Phase::mixed;
    EXPECT_EQ(error_of([&] { import_trace(kind, options); }), "") << kind;
  }
}

}  // namespace
}  // namespace moesim
