// SPDX-License-Identifier: Apache-2.0
// A config.json of Hugging Face gives the model that models/moe describes, and says what it lacks.
#include "sim/model/hf_config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/model/moe_model.h"
#include "sim/model/parameters.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

MoeModel model_of(const std::string& json, const std::vector<Override>& overrides = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/config.json";
  write_file(path, json);
  return read_moe_model(path, overrides);
}

std::string refusal_of(const std::string& json) {
  return error_of([&] { model_of(json); });
}

struct HfModel {
  const char* name;  // in models/moe
  const char* json;
};

const HfModel hf_models[] = {
    {"mixtral-8x22b", R"({"model_type": "mixtral", "hidden_size": 6144, "intermediate_size": 16384,
      "num_attention_heads": 48, "num_hidden_layers": 56, "num_key_value_heads": 8,
      "num_local_experts": 8, "num_experts_per_tok": 2, "vocab_size": 32000,
      "sliding_window": null, "torch_dtype": "bfloat16", "tie_word_embeddings": false})"},
    {"qwen2-57b-a14b",
     R"({"model_type": "qwen2_moe", "hidden_size": 3584, "intermediate_size": 18944,
      "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480, "num_experts": 64,
      "num_experts_per_tok": 8, "decoder_sparse_step": 1, "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 151936,
      "torch_dtype": "bfloat16"})"},
    {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "head_dim": 128, "hidden_size": 2048,
      "intermediate_size": 6144, "moe_intermediate_size": 768, "mlp_only_layers": [],
      "decoder_sparse_step": 1, "num_experts": 128, "num_experts_per_tok": 8,
      "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
      "attention_bias": false, "vocab_size": 151936})"},
    {"qwen3-next-80b-a3b", R"({"model_type": "qwen3_next", "hidden_size": 2048, "head_dim": 256,
      "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
      "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
      "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "num_experts": 512,
      "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_attention_heads": 16,
      "num_key_value_heads": 2, "vocab_size": 151936, "num_nextn_predict_layers": 1})"},
    {"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "n_routed_experts": 64,
      "n_shared_experts": 2, "num_experts_per_tok": 6, "num_hidden_layers": 27,
      "first_k_dense_replace": 1, "moe_layer_freq": 1, "num_attention_heads": 16,
      "num_key_value_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
      "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 1, "topk_group": 1,
      "topk_method": "greedy", "scoring_func": "softmax", "vocab_size": 102400})"},
    {"deepseek-v3", R"({"model_type": "deepseek_v3", "hidden_size": 7168,
      "intermediate_size": 18432, "moe_intermediate_size": 2048, "n_routed_experts": 256,
      "n_shared_experts": 1, "num_experts_per_tok": 8, "num_hidden_layers": 61,
      "first_k_dense_replace": 3, "num_attention_heads": 128, "q_lora_rank": 1536,
      "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
      "n_group": 8, "topk_group": 4, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
      "vocab_size": 129280, "num_nextn_predict_layers": 1})"},
    {"kimi-k2", R"({"model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432,
      "moe_intermediate_size": 2048, "n_routed_experts": 384, "n_shared_experts": 1,
      "num_experts_per_tok": 8, "num_hidden_layers": 61, "first_k_dense_replace": 1,
      "num_attention_heads": 64, "q_lora_rank": 1536, "kv_lora_rank": 512,
      "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_group": 1,
      "topk_group": 1, "scoring_func": "sigmoid", "vocab_size": 163840})"},
    {"minimax-m3", R"({"model_type": "minimax_m3_vl", "text_config": {"hidden_size": 6144,
      "intermediate_size": 3072, "dense_intermediate_size": 12288, "shared_intermediate_size": 3072,
      "num_hidden_layers": 60, "num_attention_heads": 64, "num_key_value_heads": 4,
      "head_dim": 128, "num_local_experts": 128, "num_experts_per_tok": 4, "n_shared_experts": 1,
      "scoring_func": "sigmoid", "use_routing_bias": true, "use_qk_norm": true,
      "moe_layer_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1], "vocab_size": 200064}, "dtype": "bfloat16"})"},
    {"gpt-oss-20b", R"({"model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880,
      "num_local_experts": 32, "experts_per_token": 4, "num_hidden_layers": 24,
      "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "attention_bias": true,
      "sliding_window": 128, "layer_types": ["sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention", "sliding_attention", "full_attention",
      "sliding_attention", "full_attention"], "vocab_size": 201088})"},
    {"olmoe", R"({"model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024,
      "num_experts": 64, "num_experts_per_tok": 8, "num_hidden_layers": 16,
      "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 50304})"},
    {"llama-4-maverick", R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
      "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
      "interleave_moe_layer_step": 2, "num_local_experts": 128, "num_experts_per_tok": 1,
      "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8,
      "head_dim": 128, "attention_chunk_size": 8192, "max_position_embeddings": 1048576,
      "vocab_size": 202048, "dtype": "bfloat16"}})"},
    {"deepseek-v4-flash",
     R"({"model_type": "deepseek_v4", "hidden_size": 4096, "num_hidden_layers": 43,
      "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "q_lora_rank": 1024,
      "o_lora_rank": 1024, "o_groups": 8, "qk_rope_head_dim": 64, "sliding_window": 128,
      "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128,
      4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0],
      "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512, "hc_mult": 4,
      "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 6, "num_hash_layers": 3,
      "moe_intermediate_size": 2048, "scoring_func": "sqrtsoftplus", "vocab_size": 129280,
      "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16"})"},
    {"nemotron-3-nano",
     R"({"model_type": "nemotron_h", "hidden_size": 2688, "num_hidden_layers": 52,
      "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
      "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
      "conv_kernel": 4, "n_routed_experts": 128, "num_experts_per_tok": 6,
      "moe_intermediate_size": 1856, "n_shared_experts": 1, "n_group": 1, "topk_group": 1,
      "moe_shared_expert_intermediate_size": 3712, "num_attention_heads": 32,
      "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 131072})"},
    {"nemotron-3-super",
     R"({"model_type": "nemotron_h", "hidden_size": 4096, "num_hidden_layers": 88,
      "hybrid_override_pattern": "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME",
      "mamba_num_heads": 128, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128,
      "conv_kernel": 4, "n_routed_experts": 512, "num_experts_per_tok": 22,
      "moe_intermediate_size": 2688, "moe_latent_size": 1024, "n_shared_experts": 1,
      "n_group": 1, "topk_group": 1, "moe_shared_expert_intermediate_size": 5376,
      "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128,
      "num_nextn_predict_layers": 2, "mtp_hybrid_override_pattern": "*E",
      "vocab_size": 131072})"}};

class HfConfigTest : public testing::TestWithParam<HfModel> {};

TEST_P(HfConfigTest, GivesTheModelThatIsShipped) {
  const MoeModel shipped = read_moe_model(data_file("models/moe", GetParam().name));
  const MoeModel read = model_of(GetParam().json);
  EXPECT_EQ(read.hidden, shipped.hidden);
  EXPECT_EQ(read.latent, shipped.latent);
  EXPECT_EQ(read.layers, shipped.layers);
  EXPECT_EQ(read.moe_layers, shipped.moe_layers);
  EXPECT_EQ(read.pattern, shipped.pattern);
  EXPECT_EQ(read.experts, shipped.experts);
  EXPECT_EQ(read.top_k, shipped.top_k);
  EXPECT_EQ(read.expert_ffn, shipped.expert_ffn);
  EXPECT_EQ(read.expert_matrices, shipped.expert_matrices);
  EXPECT_EQ(read.shared_experts * read.shared_ffn, shipped.shared_experts * shipped.shared_ffn);
  EXPECT_EQ(read.shared_gate, shipped.shared_gate);
  EXPECT_EQ(read.router_bias, shipped.router_bias);
  EXPECT_EQ(read.hash_layers, shipped.hash_layers);
  EXPECT_EQ(read.expert_bias, shipped.expert_bias);
  EXPECT_EQ(read.activations, shipped.activations);
  EXPECT_EQ(read.gate_score, shipped.gate_score);
  EXPECT_EQ(read.gate_groups, shipped.gate_groups);
  EXPECT_EQ(read.gate_kept_groups, shipped.gate_kept_groups);
  EXPECT_EQ(read.vocabulary, shipped.vocabulary);
  EXPECT_EQ(read.dense_ffn, shipped.dense_ffn);
  EXPECT_EQ(read.mtp, shipped.mtp);
  ASSERT_TRUE(read.attention && shipped.attention);
  EXPECT_EQ(read.attention->parameters, shipped.attention->parameters);
  EXPECT_EQ(read.attention->score_width, shipped.attention->score_width);
  ASSERT_TRUE(read.attention->shape && shipped.attention->shape);
  EXPECT_EQ(read.attention->shape->window, shipped.attention->shape->window);
  EXPECT_EQ(read.attention->shape->full_every, shipped.attention->shape->full_every);
  EXPECT_EQ(read.residual_streams, shipped.residual_streams);
  EXPECT_EQ(read.attention->shape->compression.ratios,
            shipped.attention->shape->compression.ratios);
  EXPECT_EQ(read.attention->shape->indexer.has_value(),
            shipped.attention->shape->indexer.has_value());
  EXPECT_EQ(read.attention->shape->sinks, shipped.attention->shape->sinks);
  EXPECT_EQ(read.attention->shape->yarn, shipped.attention->shape->yarn);
  EXPECT_EQ(read.missing_of_whole(), "");
}

INSTANTIATE_TEST_SUITE_P(All, HfConfigTest, testing::ValuesIn(hf_models), [](const auto& model) {
  std::string name = model.param.name;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
});

/// The MoE layers of a model of 8 layers.
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

TEST(HfConfig, TakesChangesAsAModelFileDoes) {
  EXPECT_EQ(model_of(hf_models[0].json, {parse_override("top_k=4")}).top_k, 4);
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

TEST(HfConfig, ChunksOfAttentionAreWindows) {
  const auto* maverick = std::ranges::find_if(
      hf_models, [](const HfModel& each) { return each.name == std::string("llama-4-maverick"); });
  const MoeModel model = model_of(maverick->json);
  EXPECT_EQ(std::pair(model.attention->shape->window, model.attention->shape->full_every),
            std::pair(8192, 4));
  EXPECT_THAT(model.description, HasSubstr("an upper bound"));
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
