// SPDX-License-Identifier: Apache-2.0
// A config.json of Hugging Face gives the model that models/moe describes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/data_files.h"
#include "tests/model/hf_files.h"

namespace moesim {
namespace {

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

TEST(HfConfig, TakesChangesAsAModelFileDoes) {
  EXPECT_EQ(model_of(hf_models[0].json, {parse_override("top_k=4")}).top_k, 4);
}

TEST(HfConfig, ChunksOfAttentionAreWindows) {
  const auto* maverick = std::ranges::find_if(
      hf_models, [](const HfModel& each) { return each.name == std::string("llama-4-maverick"); });
  const MoeModel model = model_of(maverick->json);
  EXPECT_EQ(std::pair(model.attention->shape->window, model.attention->shape->full_every),
            std::pair(8192, 4));
  EXPECT_THAT(model.description, testing::HasSubstr("an upper bound"));
}

}  // namespace
}  // namespace moesim
