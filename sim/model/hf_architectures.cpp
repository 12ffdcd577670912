// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_architectures.h"

#include <algorithm>
#include <array>

namespace moesim {
namespace {

using Rule = HfLayers;

/// From the modeling and configuration files of each type, by its name.
constexpr std::array architectures = {
    HfArchitecture{.type = "afmoe",
                   .layers = Rule::dense_first,
                   .sigmoid = true,
                   .router_bias = true,
                   .qk_norm = true,
                   .usual_attention = false},
    HfArchitecture{.type = "arctic", .own_width = false, .usual_attention = true},
    HfArchitecture{.type = "bailing_moe", .layers = Rule::first_k},
    HfArchitecture{.type = "bailing_moe_v2",
                   .layers = Rule::first_k,
                   .sigmoid = true,
                   .router_bias = true,
                   .qk_norm = true},
    HfArchitecture{.type = "bailing_moe_linear",
                   .layers = Rule::first_k,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{.type = "dbrx", .own_width = false},
    HfArchitecture{.type = "deepseek", .layers = Rule::first_k},
    HfArchitecture{.type = "deepseek_v2", .layers = Rule::first_k},
    HfArchitecture{
        .type = "deepseek_v3", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "deepseek_v32", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "deepseek_v4", .layers = Rule::all, .sigmoid = true, .router_bias = true},
    HfArchitecture{.type = "deepseek_v41_text",
                   .layers = Rule::all,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{.type = "dots1",
                   .layers = Rule::first_k,
                   .sigmoid = true,
                   .router_bias = true,
                   .qk_norm = true},
    HfArchitecture{.type = "ernie4_5_moe", .layers = Rule::interval, .router_bias = true},
    HfArchitecture{.type = "exaone_moe",
                   .layers = Rule::first_k,
                   .sigmoid = true,
                   .router_bias = true,
                   .qk_norm = true},
    HfArchitecture{.type = "flex_olmo", .own_width = false},
    HfArchitecture{.type = "gemma4_text", .usual_attention = false, .ffn_next_to_experts = true},
    HfArchitecture{
        .type = "glm4_moe", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "glm4_moe_lite", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "glm4v_moe_text", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{.type = "glm5_next_text",
                   .layers = Rule::first_k,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{
        .type = "glm_moe_dsa", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "gpt_oss", .own_width = false, .router_bias = true, .attention_bias = true},
    HfArchitecture{
        .type = "gpt_neox", .layers = Rule::none, .attention_bias = true, .gated = false},
    HfArchitecture{.type = "granite", .layers = Rule::none},
    HfArchitecture{.type = "granitemoe", .own_width = false},
    HfArchitecture{.type = "granitemoehybrid", .own_width = false, .usual_attention = false},
    HfArchitecture{.type = "granitemoeshared", .own_width = false},
    HfArchitecture{.type = "grok-1", .own_width = false},
    HfArchitecture{.type = "hunyuan_v1_moe", .qk_norm = true},
    HfArchitecture{.type = "hy_v3", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "jamba", .layers = Rule::period, .own_width = false, .usual_attention = false},
    HfArchitecture{
        .type = "kimi_k2", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{.type = "kimi_linear",
                   .layers = Rule::first_k,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{.type = "lfm2_moe",
                   .layers = Rule::dense_first,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{.type = "llama", .layers = Rule::none},
    HfArchitecture{
        .type = "llama4_text", .layers = Rule::interleave, .own_width = false, .sigmoid = true},
    HfArchitecture{.type = "mimo_v2",
                   .layers = Rule::all,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{.type = "mimo_v2_flash",
                   .layers = Rule::all,
                   .sigmoid = true,
                   .router_bias = true,
                   .usual_attention = false},
    HfArchitecture{.type = "minimax", .own_width = false, .usual_attention = false},
    HfArchitecture{.type = "minimax_m1", .own_width = false, .usual_attention = false},
    HfArchitecture{.type = "minimax_m2",
                   .own_width = false,
                   .sigmoid = true,
                   .router_bias = true,
                   .qk_norm = true},
    HfArchitecture{.type = "minimax_m3",
                   .own_width = false,
                   .sigmoid = true,
                   .router_bias = true,
                   .qk_norm = true},
    HfArchitecture{.type = "minimax_text_01", .own_width = false, .usual_attention = false},
    HfArchitecture{.type = "mistral", .layers = Rule::none},
    HfArchitecture{.type = "mixtral", .own_width = false},
    HfArchitecture{.type = "nemotron_h", .layers = Rule::pattern, .sigmoid = true},
    HfArchitecture{.type = "olmoe", .own_width = false},
    HfArchitecture{.type = "phi3", .layers = Rule::none},
    HfArchitecture{.type = "phimoe", .own_width = false},
    HfArchitecture{.type = "qwen2", .layers = Rule::none, .attention_bias = true},
    HfArchitecture{
        .type = "qwen2_moe", .layers = Rule::sparse, .attention_bias = true, .shared_gate = true},
    HfArchitecture{
        .type = "qwen3_5_moe_text", .layers = Rule::sparse, .qk_norm = true, .shared_gate = true},
    HfArchitecture{.type = "qwen3", .layers = Rule::none, .qk_norm = true},
    HfArchitecture{.type = "qwen3_moe", .layers = Rule::sparse, .qk_norm = true},
    HfArchitecture{
        .type = "qwen3_next", .layers = Rule::sparse, .qk_norm = true, .shared_gate = true},
    HfArchitecture{.type = "qwen3_omni_moe_text", .layers = Rule::sparse, .qk_norm = true},
    HfArchitecture{.type = "qwen3_vl_moe_text", .layers = Rule::sparse, .qk_norm = true},
    HfArchitecture{
        .type = "solar_open", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "step3p5", .sigmoid = true, .router_bias = true, .usual_attention = false},
    HfArchitecture{.type = "step3_text", .usual_attention = false},
};

/// The same under another name: MiniMax-M1 and images of older files.
std::string_view usual_type(std::string_view type) {
  if (type == "llama4") return "llama4_text";
  if (type == "qwen3_5_moe") return "qwen3_5_moe_text";
  if (type == "qwen3_vl_moe") return "qwen3_vl_moe_text";
  if (type == "glm4v_moe") return "glm4v_moe_text";
  if (type == "deepseek_v41") return "deepseek_v41_text";
  if (type == "gemma4") return "gemma4_text";
  if (type == "glm5_next") return "glm5_next_text";
  if (type == "minimax_m3_vl" || type == "minimax_m3_text") return "minimax_m3";
  if (type == "step3p7") return "step3p5";
  if (type == "MiniMaxText01") return "minimax_text_01";
  if (type == "MiniMaxM1") return "minimax_m1";
  if (type == "hunyuan") return "hunyuan_v1_moe";
  if (type == "grok_1" || type == "grok1") return "grok-1";
  return type;
}

}  // namespace

const HfArchitecture* hf_architecture(std::string_view type) {
  const std::string_view usual = usual_type(type);
  const auto* const at =
      std::ranges::find_if(architectures, [&](const HfArchitecture& a) { return usual == a.type; });
  return at == architectures.end() ? nullptr : at;
}

std::vector<std::string> hf_architecture_types() {
  std::vector<std::string> types;
  for (const HfArchitecture& a : architectures) types.emplace_back(a.type);
  return types;
}

}  // namespace moesim
