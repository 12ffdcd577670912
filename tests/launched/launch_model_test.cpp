// SPDX-License-Identifier: Apache-2.0
// Which shipped model a launch means, and how its scenario reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/base/data_files.h"
#include "sim/launched/engine_keys.h"
#include "sim/launched/launched_cluster.h"
#include "sim/launched/launched_model.h"
#include "sim/launched/launched_text.h"
#include "tests/error_of.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

std::string model_of(const std::string& name) {
  Launched launched;
  launched.serving = true;
  launched.model = name;
  return model_of_launch(launched);
}

TEST(LaunchModels, ByName) {
  for (const auto& [given, ours] : std::map<std::string, std::string>{
           {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
           {"deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"},
           {"deepseek-ai/DeepSeek-R1", "deepseek-v3"},
           {"deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"},
           {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
           {"Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"},
           {"openai/gpt-oss-120b", "gpt-oss-120b"},
           {"/data/models/Kimi-K2-Instruct-0905/", "kimi-k2"},
           {"moonshotai/Kimi-K2-Thinking", "kimi-k2.5"},
           {"moonshotai/Kimi-K2.6", "kimi-k2.5"},
           {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b-e8k2"},
           {"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano"},
           {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
           {"/root/.cache/hub/models--deepseek-ai--DeepSeek-V3/snapshots/1a2b", "deepseek-v3"}}) {
    EXPECT_EQ(model_of(given), ours);
  }
}

TEST(LaunchModels, OfNoName) {
  for (const char* given : {"deepseek-ai/DeepSeek-V3.2-Exp-Special", "zai-org/GLM-5-Air", "foo"}) {
    EXPECT_THAT(error_of([&] { model_of(given); }), HasSubstr("is not shipped")) << given;
    EXPECT_THAT(error_of([&] { model_of(given); }), HasSubstr("moesim model import config.json"));
  }
}

TEST(LaunchModels, AllShippedNames) {
  for (const char* kind : {"models/moe", "models/dense"}) {
    for (const std::string& name : data_names(kind)) EXPECT_EQ(model_of(name), name);
  }
}

TEST(LaunchModels, WeightsAsTheyAreStored) {
  const auto precision = [](const std::string& name) {
    Launched launched;
    launched.serving = true;
    launched.model = name;
    model_of_launch(launched);
    return value_in(launched, "serving.precision");
  };
  EXPECT_EQ(precision("deepseek-ai/DeepSeek-V3"), "-") << "its checkpoint's";
  EXPECT_EQ(precision("org/gpt-oss-20b-BF16"), "bf16");
  EXPECT_EQ(precision("org/gpt-oss-20b-MXFP4"), "mxfp4");
  EXPECT_EQ(precision("nvidia/DeepSeek-V3-0324-FP4"), "nvfp4");
  EXPECT_EQ(precision("Qwen/Qwen3-30B-A3B-FP8"), "fp8");
  EXPECT_EQ(precision("Qwen/Qwen3-30B-A3B-GPTQ-Int8"), "fp8") << "of its size";
  for (const char* four_bits : {"GPTQ-Int4", "AWQ", "quantized.w4a16"}) {
    EXPECT_EQ(precision(std::string("Qwen/Qwen3-30B-A3B-") + four_bits), "int4");
  }
  EXPECT_EQ(precision("Qwen/Qwen3-30B-A3B"), "-");
}

TEST(LaunchModels, IntegersOfEightBitsAreNamed) {
  const auto assumed = [](const std::string& quantization) {
    Launched launched;
    EXPECT_TRUE(set_weights(quantization, launched));
    EXPECT_EQ(value_in(launched, "serving.precision"), "fp8");
    return launched.assumed;
  };
  EXPECT_THAT(assumed("W8A8"), Contains(HasSubstr("fp8 in place of int8")));
  EXPECT_THAT(assumed("FP8-W8A8"), IsEmpty()) << "its floats are no integers";
}

TEST(LaunchModels, InPlaceOfTheLaunchsKeepHowItsWeightsAreStored) {
  const auto precision = [](const std::string& line) {
    Launched launched = launch_of_text(line + "\n", "a.sh");
    compare_sizes("qwen3-235b-a22b", launched);
    return value_in(launched, "serving.precision");
  };
  EXPECT_EQ(precision("vllm serve Qwen/Qwen3-235B-A22B-FP8 -tp 8"), "fp8");
  EXPECT_EQ(precision("vllm serve /hub/models--org--Other-NVFP4/snapshots/1a2b -tp 8"), "nvfp4");
  EXPECT_EQ(precision("vllm serve org/Other-FP8 -tp 8 --quantization bf16"), "bf16");
  EXPECT_EQ(precision("vllm serve org/Other -tp 8"), "-");
}

TEST(LaunchModels, RequestsAreNoLongerThanItsConfigAllows) {
  MoeModel model;
  model.name = "mine";
  model.longest = 4096;
  const auto finished = [&](const std::string& flags) {
    Launched launched = launch_of_text("vllm serve m -tp 8" + flags + "\n", "a.sh");
    finish_for(model, launched);
    return launched;
  };
  EXPECT_THAT(finished(" --max-model-len 200000").assumed,
              Contains("requests of up to 200000 tokens, more than the 4096 of the config of mine: "
                       "vLLM refuses them unless told otherwise"));
  EXPECT_THAT(finished(" --max-model-len 4096").assumed, IsEmpty());
  EXPECT_THAT(value_in(finished(""), "serving.requests"), HasSubstr("most: 3072}"));
  model.longest = 0;
  EXPECT_THAT(value_in(finished(""), "serving.requests"), HasSubstr("most: 6144}"));
}

TEST(LaunchModels, BySizes) {
  Launched launched = launch_of_text(megatron_launch("--moe-ffn-hidden-size 2880"), "a.sh");
  EXPECT_EQ(model_of_launch(launched), "gpt-oss-20b");
  Launched other = launch_of_text(megatron_launch("--num-layers 20"), "a.sh");
  const std::string error = error_of([&] { model_of_launch(other); });
  EXPECT_THAT(error, HasSubstr("a.sh:1: error: no model here has these sizes"));
  EXPECT_THAT(error, HasSubstr("--model gpt-oss-20b is the nearest, but differs: layers 24 (the "
                               "launch: 20)"));
  compare_sizes("gpt-oss-20b", other);
  EXPECT_THAT(other.assumed, Contains("model: gpt-oss-20b in place of the launch's: layers 24 (the "
                                      "launch: 20)"));
}

TEST(LaunchTopologies, GetAsManyGpus) {
  const auto changes = [](int gpus, const std::string& topology) {
    Launched launched;
    launched.gpus = gpus;
    fit_topology(topology, launched);
    std::string all;
    for (const LaunchedKey& change : launched.changes) {
      all += change.path + "=" + change.value + " ";
    }
    return all;
  };
  EXPECT_EQ(changes(32, "h100-rail"), "");
  EXPECT_EQ(changes(64, "h100-rail"), "topology.nodes=8 ");
  EXPECT_EQ(changes(4, "h100-rail"),
            "topology.nodes=1 topology.node.gpus=4 topology.node.nics.count=4 ");
  EXPECT_EQ(changes(256, "gb200-nvl72"),
            "topology.nodes=4 topology.node.gpus=64 topology.node.nics.count=64 ");
  EXPECT_THAT(error_of([&] { changes(64, "explicit"); }),
              HasSubstr("it starts 64 GPUs, explicit has 4 and cannot have as many"));
  Launched unknown;
  unknown.gpus_divisor = 64;
  EXPECT_THAT(error_of([&] { fit_topology("h100-rail", unknown); }),
              HasSubstr("its degrees need a multiple of 64 GPUs, h100-rail has 32"));
}

TEST(LaunchTopologies, ThatAreOneNvlinkDomainHaveTheirDispatch) {
  const auto policy = [](const std::string& gpus, const std::string& topology) {
    Launched launched = launch_of_text("tensor_parallel_size: " + gpus +
                                           "\nenable_attention_dp: true\n"
                                           "moe_expert_parallel_size: " +
                                           gpus + "\n",
                                       "a.yaml");
    fit_topology(topology, launched);
    EXPECT_THAT(launched.assumed, Contains(HasSubstr("policy: ")));
    return value_in(launched, "policy");
  };
  EXPECT_EQ(policy("72", "gb200-nvl72"), "nvlink-one-sided");
  EXPECT_EQ(policy("32", "gb200-nvl72"), "nvlink-one-sided");
  EXPECT_EQ(policy("144", "gb200-nvl72"), "megatron-allgather");
  EXPECT_EQ(policy("16", "h100-rail"), "megatron-allgather");
}

TEST(LaunchedText, HaveCommentsAndChanges) {
  Launched launched = launch_of_text(
      megatron_launch("--expert-model-parallel-size 8 --foo 'a\nb' --moe-expert-capacity-factor 1"),
      "a.sh");
  const std::string text = text_of_launch(
      launched, {"s.yaml", "h100-rail", "gpt-oss-20b", "trace: t   # a recording\n"}, 32);
  for (const char* line :
       {"\n# not simulated: --foo a b\n", "\ntrace: t   # a recording\n", "\npolicy: megatron\n",
        "\nparallel: {tp: 1, pp: 1, ep: 8}\n", "\nset:\n  - 'policy:megatron.routing={kind: ",
        "\nrouting: [balanced, recorded]", "as a.sh launches Megatron-LM"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  const std::string dense = text_of_launch(launched, {"s.yaml", "h100-rail", "llama-3-8b", ""}, 0);
  EXPECT_THAT(dense, testing::Not(HasSubstr("policy")));
  EXPECT_THAT(dense, HasSubstr("\nparallel: {tp: 1, pp: 1}\n"));
}

}  // namespace
}  // namespace moesim
