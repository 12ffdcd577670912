// SPDX-License-Identifier: Apache-2.0
// What a config.json of Hugging Face means, and what it lacks (hf_models_test.cpp has whole
// models).
#include "sim/model/hf_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/model/moe_model.h"
#include "sim/model/parameters.h"
#include "tests/error_of.h"
#include "tests/model/hf_files.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<int> layers_by(const std::string& type, const std::string& keys) {
  return model_of(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_hidden_layers": 8,
      "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
      "intermediate_size": 32, )" +
                  keys + "}")
      .moe_layers;
}

TEST(HfConfig, LayersFollowTheRuleOfTheArchitecture) {
  EXPECT_THAT(layers_by("qwen3_moe", R"("decoder_sparse_step": 2)"), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(layers_by("qwen3_moe", R"("mlp_only_layers": [0, 3])"),
              ElementsAre(1, 2, 4, 5, 6, 7));
  EXPECT_THAT(layers_by("deepseek", R"("first_k_dense_replace": 3, "moe_layer_freq": 2)"),
              ElementsAre(4, 6));
  EXPECT_THAT(layers_by("jamba", R"("expert_layer_period": 2, "expert_layer_offset": 1)"),
              ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(layers_by("ernie4_5_moe", R"("moe_layer_start_index": 2, "moe_layer_end_index": 6)"),
              ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(layers_by("ernie4_5_moe", R"("moe_layer_start_index": 6, "moe_layer_end_index": -1)"),
              ElementsAre(6, 7))
      << "-1 is the default of transformers: the last layer";
  EXPECT_THAT(layers_by("ernie4_5_moe", R"("moe_layer_end_index": 2)"), ElementsAre(0, 1, 2));
  EXPECT_THAT(layers_by("ernie4_5_moe", R"("moe_layer_interval": 3)"), ElementsAre(2, 5));
  EXPECT_THAT(layers_by("arctic", R"("moe_layer_frequency": 2)"), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(layers_by("lfm2_moe", R"("num_dense_layers": 6)"), ElementsAre(6, 7));
  EXPECT_THAT(layers_by("mimo_v2_flash", R"("moe_layer_freq": [0, 1, 1, 0, 1, 1, 1, 1])"),
              ElementsAre(1, 2, 4, 5, 6, 7));
  EXPECT_THAT(layers_by("step3_text", R"("moe_layers_enum": "4,5,7")"), ElementsAre(4, 5, 7));
  EXPECT_THAT(layers_by("glm4_moe", R"("mlp_layer_types": ["dense", "sparse", "sparse", "dense",
      "sparse", "sparse", "sparse", "sparse"])"),
              ElementsAre(1, 2, 4, 5, 6, 7));
  EXPECT_THAT(layers_by("glm4_moe", R"("mlp_layer_types": ["sparse", "dense", "sparse", "dense",
      "dense", "dense", "dense", "dense"])"),
              ElementsAre(0, 2));
}

TEST(HfConfig, TheLastLayerAloneMaySeeAllTokens) {
  const MoeModel model = model_of(R"({"model_type": "gpt_oss", "hidden_size": 64, "head_dim": 8,
      "intermediate_size": 32, "num_local_experts": 4, "experts_per_token": 2,
      "num_hidden_layers": 3, "num_attention_heads": 8, "sliding_window": 16, "vocab_size": 100,
      "layer_types": ["sliding_attention", "sliding_attention", "full_attention"]})");
  EXPECT_EQ(model.attention->shape->full_every, 3);
}

TEST(HfConfig, IsToldFromModelFilesByNameAndKeys) {
  EXPECT_TRUE(is_hf_config("a/config.json", R"({"model_type": "mixtral"})"));
  EXPECT_FALSE(is_hf_config("a/model.yaml", R"({"model_type": "mixtral"})"));
  EXPECT_FALSE(is_hf_config("a.json", R"({"moe_layers": {"first": 1}})"));
  EXPECT_FALSE(is_hf_config("a.json", R"({"expert_matrices": 3})"));
  EXPECT_FALSE(is_hf_config("a.json", R"({"dense_matrices": 3})"));
}

TEST(HfConfig, ScoresThatAreNoScoresAreThoseOfTheArchitecture) {
  const auto sigmoid = [](const std::string& type, const std::string& scoring) {
    return model_of(R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_experts": 4,
        "num_hidden_layers": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "first_k_dense_replace": 1, "intermediate_size": 32, "scoring_func": ")" +
                    scoring + "\"}")
               .gate_score == GateScore::sigmoid;
  };
  EXPECT_TRUE(sigmoid("dots1", "noaux_tc"));
  EXPECT_FALSE(sigmoid("deepseek_v3", "softmax"));
  EXPECT_FALSE(sigmoid("deepseek_v2", "noaux_tc"));
}

TEST(HfConfig, ExpertsOfHunyuanMayHaveTheWidthOfAllLayers) {
  constexpr const char* keys = R"({"model_type": "hunyuan", "hidden_size": 64, "num_experts": 4,
      "moe_topk": 1, "num_hidden_layers": 8, "intermediate_size": 48)";
  EXPECT_EQ(model_of(std::string(keys) + "}").expert_ffn, 48);
  EXPECT_EQ(model_of(std::string(keys) + R"(, "moe_intermediate_size": [32, 32]})").expert_ffn, 32);
}

TEST(HfConfig, WhatStepPlansDoNotNeedMayBeMissing) {
  // 96 heads do not divide 4096: without head_dim nobody knows the attention.
  const MoeModel model = model_of(R"({"architectures": ["Glm4MoeForCausalLM"],
      "model_type": "glm4_moe", "hidden_size": 4096, "moe_intermediate_size": 1408,
      "n_routed_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 46,
      "first_k_dense_replace": 1, "num_attention_heads": 96, "_name_or_path": "zai/GLM"})");
  EXPECT_EQ(model.name, "GLM");
  EXPECT_EQ(model.moe_layers.front(), 1);
  EXPECT_EQ(model.gate_score, GateScore::sigmoid);
  EXPECT_FALSE(model.attention);
  EXPECT_NE(model.missing_of_whole(), "");
}

/// Published: 295B parameters (tencent/Hy3).
TEST(HfConfig, WithoutATypeItIsAssumed) {
  const std::string config =
      R"({"model_type": "mixtral", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_local_experts": 8, "num_experts_per_tok": 2,
          "intermediate_size": 128)";
  const auto text = [&](const std::string& rest) {
    return model_text_of_hf_config("config.json", config + rest);
  };
  EXPECT_THAT(text("}"), HasSubstr("\nactivations: bf16  # assumed: no torch_dtype\n"));
  EXPECT_THAT(text(R"(, "dtype": "bfloat16"})"), HasSubstr("\nactivations: bf16\n"));
}

TEST(HfConfig, Hy3HasItsSize) {
  const MoeModel model = model_of(R"({"model_type": "hy_v3", "hidden_size": 4096,
      "intermediate_size": 13312, "expert_hidden_dim": 1536, "first_k_dense_replace": 1,
      "num_experts": 192, "num_experts_per_tok": 8, "num_shared_experts": 1,
      "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
      "head_dim": 128, "qk_norm": true, "vocab_size": 120832})");
  EXPECT_NEAR(static_cast<double>(parameters_of(model).total()), 295e9, 0.5e9);
  EXPECT_EQ(model.gate_score, GateScore::sigmoid);
  EXPECT_TRUE(model.attention->shape->qk_norm);
  EXPECT_EQ(model.missing_of_whole(), "");
}

/// Published: 26B parameters, 3.8B of them active (google/gemma-4-26B-A4B).
TEST(HfConfig, AnFfnNextToExpertsIsASharedExpert) {
  const MoeModel model = model_of(R"({"model_type": "gemma4", "text_config": {
      "model_type": "gemma4_text", "hidden_size": 2816, "intermediate_size": 2112,
      "moe_intermediate_size": 704, "num_experts": 128, "top_k_experts": 8,
      "num_hidden_layers": 30, "num_attention_heads": 16, "num_key_value_heads": 8,
      "head_dim": 256, "vocab_size": 262144, "tie_word_embeddings": true}})");
  EXPECT_EQ(model.moe_layers.size(), 30U);
  EXPECT_EQ(model.shared_experts, 1);
  EXPECT_EQ(model.shared_ffn, 2112);
  EXPECT_FALSE(model.attention) << "two kinds of heads";
}

/// Of all and of one token's parameters, in billions.
struct Billions {
  double total = 0, active = 0;
};

Billions size_of_model(const MoeModel& model) {
  return {static_cast<double>(parameters_of(model).main()) * 1e-9,
          static_cast<double>(active_parameters_of(model).main()) * 1e-9};
}

/// Published: 270B parameters, 115B of them active (xai-org/grok-2), whose model_type is "git".
TEST(HfConfig, AClassNamesTheArchitectureAndAResidualMoeHasAnFfnNextToIt) {
  const Billions size = size_of_model(model_of(R"({"architectures": ["Grok1ForCausalLM"],
      "model_type": "git", "hidden_size": 8192, "intermediate_size": 32768,
      "moe_intermediate_size": 16384, "num_local_experts": 8, "num_experts_per_tok": 2,
      "residual_moe": true, "num_hidden_layers": 64, "num_attention_heads": 64,
      "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 131072})"));
  EXPECT_NEAR(size.total, 270, 1);
  EXPECT_NEAR(size.active, 115, 1.5);
}

/// Published: 560B parameters, at most 31.3B of them active, without embeddings
/// (arXiv:2509.01322).
TEST(HfConfig, ALongCatLayerIsTwoAttentionsAndFfnsAndSaysWhatItLacks) {
  const MoeModel model = model_of(R"({"architectures": ["LongcatFlashForCausalLM"],
      "hidden_size": 6144, "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048,
      "n_routed_experts": 512, "moe_topk": 12, "zero_expert_num": 256, "num_layers": 28,
      "num_attention_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 131072})");
  EXPECT_NEAR(size_of_model(model).total, 560, 2);
  EXPECT_NEAR(size_of_model(model).active - 2 * .805, 31.3, 1);
  EXPECT_EQ(model.moe_layers.size(), 28U);
  EXPECT_THAT(model.description, HasSubstr("zero_expert_num"));
  EXPECT_THAT(model.description, HasSubstr("each of its 28 layers is 5 blocks here"));
}

/// Published: 32B parameters, 9B of them active (ibm-granite/granite-4.0-h-small).
TEST(HfConfig, MixersOfGraniteHaveExpertsBehindThem) {
  std::string types;
  for (int l = 0; l < 40; ++l) {
    types += fmt::format("{}\"{}\"", l == 0 ? "" : ", ", l % 10 == 5 ? "attention" : "mamba");
  }
  const MoeModel model = model_of(R"({"model_type": "granitemoehybrid", "hidden_size": 4096,
      "intermediate_size": 768, "shared_intermediate_size": 1536, "num_local_experts": 72,
      "num_experts_per_tok": 10, "num_hidden_layers": 40, "num_attention_heads": 32,
      "num_key_value_heads": 8, "mamba_n_heads": 128, "mamba_d_head": 64, "mamba_d_state": 128,
      "mamba_d_conv": 4, "mamba_n_groups": 1, "vocab_size": 100352, "tie_word_embeddings": true,
      "layer_types": [)" + types + "]}");
  EXPECT_NEAR(size_of_model(model).total, 32.2, 0.5);
  EXPECT_EQ(model.moe_layers.size(), 40U);
}

/// Published: 46.7B and 12.9B (Mixtral 8x7B), 673B and 39B (Mistral Large 3's language model).
TEST(HfConfig, ParamsOfMistralAreRead) {
  const Billions mixtral = size_of_model(model_of(R"({"dim": 4096, "n_layers": 32, "head_dim": 128,
      "hidden_dim": 14336, "n_heads": 32, "n_kv_heads": 8, "vocab_size": 32000,
      "moe": {"num_experts_per_tok": 2, "num_experts": 8}})"));
  EXPECT_NEAR(mixtral.total, 46.7, 0.1);
  EXPECT_NEAR(mixtral.active, 12.9, 0.1);
  const Billions large = size_of_model(model_of(R"({"dim": 7168, "n_layers": 61,
      "hidden_dim": 16384, "n_heads": 128, "n_kv_heads": 128, "vocab_size": 131072,
      "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "kv_lora_rank": 512,
      "v_head_dim": 128, "moe": {"route_every_n": 1, "first_k_dense_replace": 3,
      "num_experts": 128, "num_experts_per_tok": 4, "num_expert_groups": 1,
      "num_expert_groups_per_tok": 1, "expert_hidden_dim": 4096, "num_shared_experts": 1}})"));
  EXPECT_NEAR(large.total, 673, 2);
  EXPECT_NEAR(large.active, 39, 1);
}

TEST(HfConfig, HybridsWithoutExpertsAreRefused) {
  EXPECT_THAT(refusal_of(R"({"model_type": "nemotron_h", "hidden_size": 64,
      "hybrid_override_pattern": "M-*-", "intermediate_size": 128})"),
              HasSubstr("is a hybrid without experts"));
}

TEST(HfConfig, AFileWithExpertsIsReadByItsKeysAndSaysSo) {
  const MoeModel model = model_of(R"({"model_type": "new_moe", "hidden_size": 64,
      "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": [32, 16],
      "num_hidden_layers": 3, "first_k_dense_replace": 1})");
  EXPECT_THAT(model.moe_layers, ElementsAre(1, 2));
  EXPECT_EQ(model.expert_ffn, 32);
  EXPECT_THAT(model.description, HasSubstr("no architecture new_moe is known here"));
  EXPECT_THAT(model.description, HasSubstr("moe_intermediate_size differs between layers"));
}

/// "llama" is dense, yet OpenMoE's files have that type.
TEST(HfConfig, ExpertsInAFileOfADenseTypeAreNotDropped) {
  EXPECT_THAT(layers_by("llama", R"("moe_layer_interval": 4)"), ElementsAre(3, 7));
}

TEST(HfConfig, EachMissingKeyIsNamed) {
  const std::string text = refusal_of(R"({"model_type": "deepseek_v3", "hidden_size": 64,
      "num_experts_per_tok": 2, "num_hidden_layers": 4, "moe_intermediate_size": 0})");
  EXPECT_THAT(text, HasSubstr("config.json: error: the file lacks the key 'n_routed_experts' or"));
  EXPECT_THAT(text, HasSubstr("the file lacks the key 'first_k_dense_replace'"));
  EXPECT_THAT(text, HasSubstr("error: 'moe_intermediate_size' is 0, no whole number from 1"));
  EXPECT_THAT(text, HasSubstr("models/README.md describes model files"));
}

TEST(HfConfig, UnknownArchitecturesAreRefused) {
  EXPECT_THAT(refusal_of(R"({"model_type": "qwen3_moo"})"),
              HasSubstr("'model_type' is 'qwen3_moo', no architecture that is known here, and no "
                        "key names its experts\nhint: did you mean 'qwen3_moe'?"));
  EXPECT_THAT(refusal_of(R"({"hidden_size": 64})"),
              HasSubstr("the file lacks the key 'model_type'"));
  EXPECT_THAT(refusal_of("[1]"),
              HasSubstr("is not a config.json of Hugging Face: it is not an object"));
  EXPECT_THAT(refusal_of(R"({"model_type": "mixtral", )"), HasSubstr("not JSON"));
}

TEST(HfConfig, SaysHowLongASequenceMayBe) {
  const std::string tiny = R"({"model_type": "mixtral", "hidden_size": 64, "num_experts": 4,
      "num_experts_per_tok": 2, "intermediate_size": 32, "num_hidden_layers": 3)";
  EXPECT_EQ(model_of(tiny + "}").longest, 0);
  EXPECT_EQ(model_of(tiny + R"(, "max_position_embeddings": 32768})").longest, 32768);
  EXPECT_THAT(refusal_of(tiny + R"(, "max_position_embeddings": 0})"),
              HasSubstr("'max_position_embeddings' is 0"));
  EXPECT_EQ(read_moe_model(data_file("models/moe", "qwen3-30b-a3b")).longest, 40960);
}

TEST(HfConfig, LayersOfAModelFileMayBeListed) {
  const std::string file = read_file(data_file("models/moe", "tiny-moe"));
  const auto listed = [&](const std::string& layers) {
    return parse_moe_model(file, "a.yaml", {parse_override("moe_layers=" + layers)}).moe_layers;
  };
  EXPECT_THAT(listed("[0, 2, 3]"), ElementsAre(0, 2, 3));
  EXPECT_THROW(listed("[0, 4]"), Error);
  EXPECT_THROW(listed("[2, 2]"), Error);
  EXPECT_THROW(listed("[]"), Error);
}

}  // namespace
}  // namespace moesim
