// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_params.h"

#include <nlohmann/json.hpp>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

struct Renamed {
  const char* params;
  const char* config;
};

/// Mistral's params.json.
constexpr Renamed of_model[] = {{"dim", "hidden_size"},
                                {"n_layers", "num_hidden_layers"},
                                {"hidden_dim", "intermediate_size"},
                                {"n_heads", "num_attention_heads"},
                                {"n_kv_heads", "num_key_value_heads"},
                                {"tied_embeddings", "tie_word_embeddings"}};

constexpr Renamed of_moe[] = {{"num_experts", "n_routed_experts"},
                              {"num_experts_per_tok", "num_experts_per_tok"},
                              {"expert_hidden_dim", "moe_intermediate_size"},
                              {"num_shared_experts", "n_shared_experts"},
                              {"first_k_dense_replace", "first_k_dense_replace"},
                              {"route_every_n", "moe_layer_freq"},
                              {"num_expert_groups", "n_group"},
                              {"num_expert_groups_per_tok", "topk_group"}};

/// inference/configs of deepseek-ai/DeepSeek-V3.
constexpr Renamed of_deepseek[] = {{"dim", "hidden_size"},
                                   {"n_layers", "num_hidden_layers"},
                                   {"inter_dim", "intermediate_size"},
                                   {"moe_inter_dim", "moe_intermediate_size"},
                                   {"n_dense_layers", "first_k_dense_replace"},
                                   {"n_heads", "num_attention_heads"},
                                   {"n_activated_experts", "num_experts_per_tok"},
                                   {"n_expert_groups", "n_group"},
                                   {"n_limited_groups", "topk_group"}};

template <typename Names>
void copy_renamed(const Json& from, const Names& names, Json& to) {
  for (const Renamed& name : names) {
    if (const auto at = from.find(name.params); at != from.end()) to[name.config] = *at;
  }
}

/// Without what says that a rank is not reduced.
Json config_of_deepseek(const Json& root) {
  Json config = root;
  copy_renamed(root, of_deepseek, config);
  if (config.value("q_lora_rank", Json(1)) == 0) config.erase("q_lora_rank");
  config["model_type"] =
      config.value("score_func", Json()) == "sigmoid" ? "deepseek_v3" : "deepseek_v2";
  return config;
}

Json config_of_mistral(const Json& root) {
  Json config = root;
  copy_renamed(root, of_model, config);
  const auto moe = root.find("moe");
  const bool has_experts = moe != root.end() && moe->is_object();
  if (has_experts) copy_renamed(*moe, of_moe, config);
  const bool deep = config.contains("first_k_dense_replace");
  config["model_type"] = !has_experts ? "mistral" : deep ? "deepseek_v2" : "mixtral";
  return config;
}

/// OpenAI's own, whose keys are those of transformers.
bool is_of_gpt_oss(const Json& root) {
  return root.contains("experts_per_token") && root.contains("swiglu_limit");
}

}  // namespace

Json config_of_params(const Json& root) {
  if (!root.is_object() || root.contains("model_type")) return root;
  if (root.contains("dim") && root.contains("n_activated_experts")) return config_of_deepseek(root);
  if (root.contains("dim") && !root.contains("hidden_size")) return config_of_mistral(root);
  Json config = root;
  if (is_of_gpt_oss(root)) config["model_type"] = "gpt_oss";
  return config;
}

}  // namespace moesim
