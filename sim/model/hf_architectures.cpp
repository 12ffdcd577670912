// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_architectures.h"

#include <algorithm>
#include <array>
#include <cctype>

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
                   .output_gate = true},
    HfArchitecture{.type = "apertus", .layers = Rule::none, .gated = false},
    HfArchitecture{.type = "arctic", .own_width = false},
    HfArchitecture{.type = "aria_text", .own_width = false},
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
    HfArchitecture{.type = "exaone4", .layers = Rule::none, .qk_norm = true},
    HfArchitecture{.type = "flex_olmo", .own_width = false},
    HfArchitecture{.type = "gemma2", .layers = Rule::none},
    HfArchitecture{.type = "gemma3_text", .layers = Rule::none, .qk_norm = true},
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
    HfArchitecture{.type = "granitemoehybrid", .layers = Rule::mixers, .own_width = false},
    HfArchitecture{.type = "granitemoeshared", .own_width = false},
    HfArchitecture{.type = "grok-1", .own_width = false},
    HfArchitecture{.type = "hunyuan_v1_dense", .layers = Rule::none, .qk_norm = true},
    HfArchitecture{.type = "hunyuan_v1_moe", .own_width = false, .qk_norm = true},
    HfArchitecture{.type = "hy_v3", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "jamba", .layers = Rule::period, .own_width = false, .usual_attention = false},
    HfArchitecture{.type = "jetmoe", .own_width = false, .usual_attention = false},
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
    HfArchitecture{.type = "longcat_flash", .layers = Rule::shortcut, .router_bias = true},
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
    HfArchitecture{.type = "ministral3", .layers = Rule::none},
    HfArchitecture{.type = "minimax_text_01", .own_width = false, .usual_attention = false},
    HfArchitecture{.type = "mistral", .layers = Rule::none},
    HfArchitecture{.type = "mixtral", .own_width = false},
    HfArchitecture{.type = "nemotron_h", .layers = Rule::pattern, .sigmoid = true},
    HfArchitecture{.type = "olmo2", .layers = Rule::none, .qk_norm = true},
    HfArchitecture{.type = "olmo3", .layers = Rule::none, .qk_norm = true},
    HfArchitecture{.type = "olmoe", .own_width = false},
    HfArchitecture{.type = "phi3", .layers = Rule::none},
    HfArchitecture{.type = "phimoe", .own_width = false},
    HfArchitecture{.type = "qwen2", .layers = Rule::none, .attention_bias = true},
    HfArchitecture{
        .type = "qwen2_moe", .layers = Rule::sparse, .attention_bias = true, .shared_gate = true},
    HfArchitecture{.type = "qwen3_5_moe_text",
                   .layers = Rule::sparse,
                   .qk_norm = true,
                   .output_gate = true,
                   .shared_gate = true},
    HfArchitecture{.type = "qwen3", .layers = Rule::none, .qk_norm = true},
    HfArchitecture{.type = "qwen3_moe", .layers = Rule::sparse, .qk_norm = true},
    HfArchitecture{.type = "qwen3_next",
                   .layers = Rule::sparse,
                   .qk_norm = true,
                   .output_gate = true,
                   .shared_gate = true},
    HfArchitecture{.type = "qwen3_omni_moe_text", .layers = Rule::sparse, .qk_norm = true},
    HfArchitecture{.type = "qwen3_vl_moe_text", .layers = Rule::sparse, .qk_norm = true},
    HfArchitecture{.type = "seed_oss", .layers = Rule::none},
    HfArchitecture{.type = "skywork", .own_width = false},
    HfArchitecture{.type = "smallthinker", .layers = Rule::all},
    HfArchitecture{
        .type = "solar_open", .layers = Rule::first_k, .sigmoid = true, .router_bias = true},
    HfArchitecture{
        .type = "step3p5", .sigmoid = true, .router_bias = true, .usual_attention = false},
    HfArchitecture{.type = "step3_text", .usual_attention = false},
    HfArchitecture{.type = "xverse", .own_width = false},
};

struct HfAlias {
  std::string_view name, type;
};

/// The same under another name: MiniMax-M1 and images of older files.
constexpr std::array aliases = {HfAlias{"llama4", "llama4_text"},
                                HfAlias{"qwen3_5_moe", "qwen3_5_moe_text"},
                                HfAlias{"qwen3_vl_moe", "qwen3_vl_moe_text"},
                                HfAlias{"glm4v_moe", "glm4v_moe_text"},
                                HfAlias{"deepseek_v41", "deepseek_v41_text"},
                                HfAlias{"gemma4", "gemma4_text"},
                                HfAlias{"glm5_next", "glm5_next_text"},
                                HfAlias{"minimax_m3_vl", "minimax_m3"},
                                HfAlias{"minimax_m3_text", "minimax_m3"},
                                HfAlias{"step3p7", "step3p5"},
                                HfAlias{"aria_moe_lm", "aria_text"},
                                HfAlias{"ernie4_5_moe_vl", "ernie4_5_moe"},
                                HfAlias{"ernie4_5_vl_moe", "ernie4_5_moe"},
                                HfAlias{"ernie4_5_vl_moe_text", "ernie4_5_moe"},
                                HfAlias{"longcat_flash_ngram", "longcat_flash"},
                                HfAlias{"MiniMaxText01", "minimax_text_01"},
                                HfAlias{"MiniMaxM1", "minimax_m1"},
                                HfAlias{"hunyuan", "hunyuan_v1_moe"},
                                HfAlias{"grok_1", "grok-1"},
                                HfAlias{"grok1", "grok-1"}};

/// The letters and digits of a name, in lower case: BailingMoeV2 and bailing_moe_v2 are one.
std::string letters_of(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return letters;
}

template <typename Same>
const HfArchitecture* architecture_that(const Same& same) {
  const auto* const alias = std::ranges::find_if(aliases, same, &HfAlias::name);
  const auto* const at = alias == aliases.end()
                             ? std::ranges::find_if(architectures, same, &HfArchitecture::type)
                             : std::ranges::find(architectures, alias->type, &HfArchitecture::type);
  return at == architectures.end() ? nullptr : at;
}

}  // namespace

const HfArchitecture* hf_architecture(std::string_view type) {
  return architecture_that([&](std::string_view name) { return name == type; });
}

const HfArchitecture* hf_architecture_of_class(std::string_view name) {
  const std::string letters = letters_of(name.substr(0, name.find("For")));
  return architecture_that([&](std::string_view type) { return letters_of(type) == letters; });
}

std::vector<std::string> hf_architecture_types() {
  std::vector<std::string> types;
  for (const HfArchitecture& a : architectures) types.emplace_back(a.type);
  return types;
}

}  // namespace moesim
