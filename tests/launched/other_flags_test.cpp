// SPDX-License-Identifier: Apache-2.0
// Flags of engines that change times: each becomes a key, or is named as not simulated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

Launched launched_flags(const std::string& script) { return launch_of_text(script + "\n", "a.sh"); }

TEST(OtherVllmFlags, ThatChangeTheModelAreNotSimulated) {
  EXPECT_THAT(
      launched_flags("vllm serve m --hf-overrides '{\"num_hidden_layers\": 4}'").not_simulated,
      Contains(HasSubstr("num_hidden_layers")));
  EXPECT_THAT(launched_flags("vllm serve m --hf-overrides '{}' --hf-token x").not_simulated,
              testing::IsEmpty());
}

TEST(OtherVllmFlags, BlocksAreKvTokens) {
  EXPECT_EQ(
      value_in(launched_flags("vllm serve m --num-gpu-blocks-override 100"), "serving.kv_tokens"),
      "1600");
  EXPECT_EQ(value_in(launched_flags("vllm serve m --num-gpu-blocks-override 100 --block-size 64"),
                     "serving.kv_tokens"),
            "6400");
}

TEST(OtherVllmFlags, TypesOfKeysThatTakeThePlaceOfOthersAreNamed) {
  const auto kv = [](const std::string& type) {
    const Launched launched = launched_flags("vllm serve m --kv-cache-dtype " + type);
    return value_in(launched, "serving.kv") +
           (launched.assumed.empty() ? "" : ": " + launched.assumed.back());
  };
  EXPECT_THAT(kv("fp8_e5m2"), testing::StartsWith("fp8"));
  EXPECT_THAT(kv("fp8_e5m2"), Not(HasSubstr("in place of")));
  EXPECT_THAT(kv("bfloat16"), Not(HasSubstr("in place of")));
  EXPECT_THAT(kv("nvfp4"), HasSubstr("fp8 in place of nvfp4, which takes half of that"));
  EXPECT_THAT(kv("fp4_e2m1"), HasSubstr("fp8 in place of fp4_e2m1"));
  EXPECT_THAT(kv("int8"), HasSubstr("fp8 in place of int8, of its size"));
  EXPECT_THAT(kv("turbo"), HasSubstr("bf16 in place of turbo"));
}

TEST(OtherVllmFlags, DraftersThatAreNotSimulatedAreNamed) {
  const auto assumed = [](const std::string& config) {
    return launched_flags("vllm serve m --speculative-config '{\"num_speculative_tokens\": 3" +
                          config + "}'")
        .assumed;
  };
  const auto other = [](const std::string& name) { return Contains(HasSubstr("not by " + name)); };
  EXPECT_THAT(assumed(", \"method\": \"ngram\""), other("ngram"));
  EXPECT_THAT(assumed(", \"method\": \"eagle3\", \"model\": \"a/b\""), other("a/b"));
  EXPECT_THAT(assumed(", \"method\": \"deepseek_mtp\""), Not(other("")));
  EXPECT_THAT(assumed(""), Not(other("")));
}

TEST(OtherVllmFlags, FourBitsOfOnlyExpertsAreNamed) {
  const auto named = Contains(HasSubstr("attention and dense layers in bf16, which gptq_marlin"));
  EXPECT_THAT(launched_flags("vllm serve m --quantization gptq_marlin").assumed, named);
  EXPECT_THAT(launched_flags("vllm serve m --quantization fp8").assumed, Not(named));
}

const std::string server = "python -m sglang.launch_server --model-path m ";

TEST(OtherSglangFlags, AreReadOrNotSimulated) {
  const auto launched = [](const std::string& flags) { return launched_flags(server + flags); };
  EXPECT_EQ(value_in(launched("--max-total-tokens 9000"), "serving.kv_tokens"), "9000");
  EXPECT_THAT(launched("--json-model-override-args '{\"num_hidden_layers\": 4}'").not_simulated,
              Contains(HasSubstr("num_hidden_layers")));
  EXPECT_THAT(launched("--attn-cp-size 4").not_simulated, Contains("--attn-cp-size 4"));
  const std::string ranks = "--tp 8 --dp 8 --enable-dp-attention ";
  EXPECT_THAT(launched(ranks + "--moe-dense-tp-size 1").not_simulated, testing::IsEmpty());
  EXPECT_THAT(launched("--tp 8 --moe-dense-tp-size 1").not_simulated,
              Contains("--moe-dense-tp-size 1"));
  const std::string shortest = "--load-balance-method shortest_queue";
  EXPECT_EQ(value_in(launched(ranks + shortest), "serving.engine.router"), "least-requests");
  EXPECT_EQ(value_in(launched("--tp 4 --dp 2 " + shortest), "serving.router"), "least-requests");
  EXPECT_THAT(launched("--load-balance-method other").not_simulated,
              Contains("--load-balance-method other"));
}

TEST(OtherSglangFlags, ATreeOfDraftsKeepsOnePath) {
  const std::string tree =
      "--speculative-num-steps 3 --speculative-eagle-topk 4 --speculative-num-draft-tokens 16 ";
  const Launched launched = launched_flags(server + "--speculative-algorithm EAGLE " + tree);
  EXPECT_EQ(values_in(launched, {"serving.drafts", "serving.accepted"}), "15 1.53");
  EXPECT_THAT(launched.assumed, Contains(HasSubstr("without the others")));
  EXPECT_THAT(launched_flags(server + "--speculative-algorithm NGRAM " + tree).assumed,
              Contains(HasSubstr("not by NGRAM")));
}

TEST(OtherTrtllmOptions, LimitsOfTheCacheAndTheScheduler) {
  const Launched launched = launch_of_text(
      "tensor_parallel_size: 8\nmoe_expert_parallel_size: 4\nkv_cache_config: {max_tokens: "
      "50000}\nmax_beam_width: 4\n"
      "scheduler_config: {capacity_scheduler_policy: MAX_UTILIZATION}\n",
      "a.yaml");
  EXPECT_EQ(values_in(launched, {"serving.kv_tokens", "serving.engine.kv.reserve"}),
            "50000 {initial: 0}");
  EXPECT_THAT(launched.not_simulated, Contains(HasSubstr("max_beam_width")));
  EXPECT_THAT(
      launch_of_text("tensor_parallel_size: 8\nmoe_expert_parallel_size: 4\nscheduler_config: "
                     "{capacity_scheduler_policy: STATIC_BATCH}\n",
                     "a.yaml")
          .not_simulated,
      Contains(HasSubstr("STATIC_BATCH")));
}

}  // namespace
}  // namespace moesim
