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

template <typename Names>
void copy_renamed(const Json& from, const Names& names, Json& to) {
  for (const Renamed& name : names) {
    if (const auto at = from.find(name.params); at != from.end()) to[name.config] = *at;
  }
}

}  // namespace

bool is_mistral_params(const Json& root) {
  return root.is_object() && root.contains("dim") && !root.contains("model_type") &&
         !root.contains("hidden_size");
}

Json config_of_mistral_params(const Json& root) {
  Json config = root;
  copy_renamed(root, of_model, config);
  const auto moe = root.find("moe");
  const bool has_experts = moe != root.end() && moe->is_object();
  if (has_experts) copy_renamed(*moe, of_moe, config);
  const bool deep = config.contains("first_k_dense_replace");
  config["model_type"] = !has_experts ? "mistral" : deep ? "deepseek_v2" : "mixtral";
  return config;
}

}  // namespace moesim
