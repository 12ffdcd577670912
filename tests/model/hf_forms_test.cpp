// SPDX-License-Identifier: Apache-2.0
// Forms of config.json that not transformers wrote, or that say the usual otherwise.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/model/hf_config.h"
#include "sim/model/moe_model.h"
#include "sim/model/parameters.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string text_of_config(const std::string& json) {
  return model_text_of_hf_config("a/config.json", json);
}

const std::string small_qwen = R"("model_type": "qwen3_moe", "hidden_size": 64,
"intermediate_size": 128, "moe_intermediate_size": 32, "num_experts": 8, "num_experts_per_tok": 2,
"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16)";

TEST(HfForms, OpenAisOwnFileOfGptOss) {
  const std::string text = text_of_config(R"({"num_hidden_layers": 36, "num_experts": 128,
"experts_per_token": 4, "vocab_size": 201088, "hidden_size": 2880, "intermediate_size": 2880,
"swiglu_limit": 7.0, "head_dim": 64, "num_attention_heads": 64, "num_key_value_heads": 8,
"sliding_window": 128, "initial_context_length": 4096, "rope_theta": 150000})");
  const MoeModel read = parse_moe_model(text, "own");
  const MoeModel shipped = read_moe_model(data_file("models/moe", "gpt-oss-120b"));
  EXPECT_EQ(read.moe_layers, shipped.moe_layers);
  EXPECT_EQ(parameters_of(read).total(), parameters_of(shipped).total());
  EXPECT_THAT(text, HasSubstr("sinks: true, full_every: 2, window: 128}"));
}

TEST(HfForms, DeepSeeksFilesForItsOwnInference) {
  const std::string text = text_of_config(R"({"vocab_size": 129280, "dim": 7168,
"inter_dim": 18432, "moe_inter_dim": 2048, "n_layers": 61, "n_dense_layers": 3, "n_heads": 128,
"n_routed_experts": 256, "n_shared_experts": 1, "n_activated_experts": 8, "n_expert_groups": 8,
"n_limited_groups": 4, "route_scale": 2.5, "score_func": "sigmoid", "q_lora_rank": 1536,
"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
"dtype": "fp8"})");
  const MoeModel read = parse_moe_model(text, "own");
  const MoeModel shipped = read_moe_model(data_file("models/moe", "deepseek-v3"));
  EXPECT_EQ(parameters_of(read).main(), parameters_of(shipped).main());
  EXPECT_THAT(text, HasSubstr("gate: {score: sigmoid, groups: 8, kept_groups: 4}"));
  EXPECT_THAT(text_of_config(R"({"dim": 2048, "inter_dim": 10944, "moe_inter_dim": 1408,
"n_layers": 27, "n_dense_layers": 1, "n_heads": 16, "n_routed_experts": 64, "n_shared_experts": 2,
"n_activated_experts": 6, "route_scale": 1.0, "q_lora_rank": 0, "kv_lora_rank": 512,
"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128})"),
              HasSubstr("attention: {kind: mla, heads: 16, kv_rank: 512,"));
}

TEST(HfForms, MistakesAreOfTheConfigsKeys) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/config.json";
  const auto mistake = [&](const std::string& from, const std::string& to,
                           const std::vector<Override>& overrides = {}) {
    std::string text = "{" + small_qwen + "}";
    text.replace(text.find(from), from.size(), to);
    write_file(path, text);
    return error_of([&] { read_moe_model(path, overrides); });
  };
  const std::string two = R"("num_experts_per_tok": 2)";
  EXPECT_EQ(mistake(two, R"("num_experts_per_tok": 9)"),
            path + ": error: 'num_experts_per_tok' is 9, more than the 8 experts\n");
  EXPECT_THAT(mistake(R"("hidden_size": 64)", R"("hidden_size": 6400000000)"),
              testing::StartsWith(path + ": error: 'hidden_size'"));
  const Override asked{"top_k", "9", ""};
  EXPECT_THAT(mistake(two, two, {asked}), HasSubstr("--set top_k=9"));
}

TEST(HfForms, EncodersAreRefusedWithoutAKeyThatSaysSo) {
  EXPECT_THROW(text_of_config(R"({"model_type": "switch_transformers", "d_model": 768,
"num_experts": 8, "num_layers": 12, "num_sparse_encoder_layers": 6})"),
               Error);
}

TEST(HfForms, NumbersThatJsonLacks) {
  const std::string plain = text_of_config("{" + small_qwen + "}");
  EXPECT_EQ(text_of_config("{\"time_step_limit\": [0.0, Infinity, -Infinity], \"x\": NaN, " +
                           small_qwen + "}"),
            plain);
  EXPECT_THAT(text_of_config(R"({"_name_or_path": "a/NaN-\"Infinity", )" + small_qwen + "}"),
              HasSubstr("NaN-"));
}

TEST(HfForms, HunyuansFirstLayersHaveNoExperts) {
  const std::string config = R"({"model_type": "hunyuan_v1_moe", "hidden_size": 64,
"intermediate_size": 128, "moe_intermediate_size": 32, "num_experts": 8, "moe_topk": 2,
"num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16)";
  EXPECT_THAT(text_of_config(config + R"(, "moe_layer_num_skipped": 1})"),
              HasSubstr("moe_layers: {first: 1, count: 3, stride: 1}"));
  EXPECT_THAT(text_of_config(config + "}"),
              HasSubstr("moe_layers: {first: 0, count: 4, stride: 1}"));
}

TEST(HfForms, CheckpointsAreWhatEnginesServe) {
  const auto stored = [](const std::string& keys) {
    return text_of_config("{" + small_qwen + R"(, "quantization_config": {)" + keys + "}}");
  };
  EXPECT_THAT(stored(R"("quant_method": "fp8")"),
              AllOf(HasSubstr("\ncheckpoint: fp8\n"), HasSubstr("engines serve fp8")));
  EXPECT_THAT(stored(R"("quant_method": "mxfp4")"), HasSubstr("\ncheckpoint: mxfp4\n"));
  EXPECT_THAT(stored(R"("quant_method": "modelopt", "quant_algo": "NVFP4")"),
              HasSubstr("\ncheckpoint: nvfp4\n"));
  EXPECT_THAT(stored(R"("quant_method": "compressed-tensors", "format": "float-quantized")"),
              HasSubstr("\ncheckpoint: fp8\n"));
  const std::string groups = R"("quant_method": "compressed-tensors", "format": "pack-quantized",
"config_groups": {"group_0": {"weights": {"group_size": 32, "num_bits": )";
  EXPECT_THAT(stored(groups + "4}}}"), HasSubstr("\ncheckpoint: int4\n"));
  EXPECT_THAT(stored(groups + "8}}}"), Not(HasSubstr("checkpoint:")));
  EXPECT_THAT(stored(R"("quant_method": "gptq", "bits": 4)"), HasSubstr("\ncheckpoint: int4\n"));
  EXPECT_THAT(text_of_config("{" + small_qwen + R"(, "expert_dtype": "fp4", "quantization_config":
{"quant_method": "fp8"}})"),
              HasSubstr("\ncheckpoint: mxfp4-mxfp8\ncheckpoint_others: fp8\n"));
  EXPECT_THAT(stored(R"("quant_method": "awq")"),
              AllOf(Not(HasSubstr("checkpoint:")), HasSubstr("the file stores awq")));
}

TEST(HfForms, BitsOfStoredWeights) {
  EXPECT_THAT(
      text_of_config("{" + small_qwen + R"(, "quantization": {"group_size": 64, "bits": 4}})"),
      HasSubstr("weights are bf16, as computed; the file stores 4-bit (serving.precision)"));
}

}  // namespace
}  // namespace moesim
