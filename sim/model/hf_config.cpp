// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/model/hf_architectures.h"
#include "sim/model/hf_attention.h"
#include "sim/model/hf_keys.h"
#include "sim/model/hf_name.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

const HfNames layers_key = {"num_hidden_layers", "n_layers", "num_layers"};
const HfNames experts_key = {"n_routed_experts", "num_experts", "num_local_experts",
                             "moe_num_experts", "ffn_config.moe_num_experts"};
const HfNames top_k_key = {"num_experts_per_tok",
                           "num_experts_per_token",
                           "experts_per_token",
                           "moe_topk",
                           "moe_top_k",
                           "moe_k",
                           "num_selected_experts",
                           "top_k_experts",
                           "ffn_config.moe_top_k"};
const HfNames width_key = {"moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim"};
const HfNames own_width_key = {"intermediate_size", "ffn_config.ffn_hidden_size"};
const HfNames shared_key = {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
                            "num_shared_expert"};
const HfNames shared_width_key = {
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
    "moe_shared_intermediate_size", "shared_intermediate_size", "share_expert_dim"};
const HfNames mtp_key = {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers",
                         "mtp_num_layers"};

/// Models of images and text describe the latter in a part of its own.
const Json& text_part(const Json& root) {
  for (const char* name : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const auto at = root.find(name);
    if (at != root.end() && at->is_object()) return text_part(*at);
  }
  return root;
}

/// One flag per layer, as some files list them: lists of numbers, of words, or a text of numbers.
std::optional<std::vector<int>> listed_layers(HfKeys& keys, std::int64_t layers) {
  std::vector<int> numbers;
  const auto of_flags = [&](const std::vector<std::int64_t>& flags) {
    for (std::size_t l = 0; l < flags.size(); ++l) {
      if (flags[l] != 0) numbers.push_back(static_cast<int>(l));
    }
    return numbers;
  };
  const HfNames flags_key = {"is_moe_layer", "moe_layer_layout"};
  if (keys.has(flags_key)) return of_flags(keys.numbers(flags_key));
  const Json* frequency = keys.find({"moe_layer_freq"});
  if (frequency != nullptr && frequency->is_array())
    return of_flags(keys.numbers({"moe_layer_freq"}));
  if (const Json* types = keys.find({"mlp_layer_types"}); types != nullptr && types->is_array()) {
    for (std::size_t l = 0; l < types->size(); ++l) {
      if ((*types)[l] == "sparse") numbers.push_back(static_cast<int>(l));
    }
    return numbers;
  }
  if (const std::string list = keys.text({"moe_layers_enum"}); !list.empty()) {
    std::istringstream in(list);
    for (std::string number; std::getline(in, number, ',');) {
      numbers.push_back(std::atoi(number.c_str()));
    }
    return numbers;
  }
  const Json* named = keys.find({"moe_layers"});
  if (named != nullptr && named->is_array() && !named->empty()) {
    for (const std::int64_t l : keys.numbers({"moe_layers"}))
      numbers.push_back(static_cast<int>(l));
    return numbers;
  }
  (void)layers;
  return std::nullopt;
}

/// Whether a layer has experts, by the rule of the architecture.
std::vector<int> layers_by_rule(HfKeys& keys, HfLayers rule, std::int64_t layers) {
  const auto of = [&](const HfNames& names, std::int64_t absent, std::int64_t least = 0) {
    return keys.number(names, least).value_or(absent);
  };
  std::int64_t first = 0, every = 1, offset = 0, last = layers - 1;  // (l + offset) % every == 0
  switch (rule) {
    case HfLayers::first_k:
      first = keys.need({"first_k_dense_replace"}, 0);
      every = of({"moe_layer_freq"}, 1, 1);
      break;
    case HfLayers::sparse:
      every = of({"decoder_sparse_step"}, 1, 1);
      offset = 1;
      break;
    case HfLayers::interleave:
      every = keys.need({"interleave_moe_layer_step"});
      offset = 1;
      break;
    case HfLayers::period:
      every = keys.need({"expert_layer_period"});
      offset = every - keys.need({"expert_layer_offset"}, 0) % every;
      break;
    case HfLayers::interval:
      first = of({"moe_layer_start_index"}, 0);
      if (keys.find({"moe_layer_end_index"}) != nullptr &&
          *keys.find({"moe_layer_end_index"}) != -1) {  // -1: to the end
        last = of({"moe_layer_end_index"}, last);
      }
      every = of({"moe_layer_interval"}, 1, 1);
      offset = 1;
      break;
    case HfLayers::dense_first:
      first = keys.need({"num_dense_layers"}, 0);
      break;
    default:
      every = of({"moe_layer_frequency"}, 1, 1);
      offset = 1;
  }
  const auto dense = keys.numbers({"mlp_only_layers"});
  std::vector<int> numbers;
  for (std::int64_t l = first; l <= std::min(last, layers - 1); ++l) {
    const bool only = std::ranges::find(dense, l) != dense.end();
    if ((l + offset) % every == 0 && !only) numbers.push_back(static_cast<int>(l));
  }
  return numbers;
}

std::string layers_text_of(const std::vector<int>& layers) {
  const int stride = layers.size() > 1 ? layers[1] - layers[0] : 1;
  for (std::size_t i = 2; i < layers.size(); ++i) {
    if (layers[i] - layers[i - 1] != stride) return fmt::format("[{}]", fmt::join(layers, ", "));
  }
  return fmt::format("{{first: {}, count: {}, stride: {}}}", layers.front(), layers.size(),
                     std::max(stride, 1));
}

std::string type_of_rows(const HfKeys& keys, const HfKeys& outer) {
  const HfNames dtype_key = {"torch_dtype", "dtype"};
  const std::string named = (keys.has(dtype_key) ? keys : outer).text(dtype_key);
  if (named.find("float16") != std::string::npos && named.find("bfloat16") == std::string::npos) {
    return "fp16";
  }
  return named.find("float32") != std::string::npos ? "fp32" : "bf16";
}

std::string gate_of(HfKeys& keys, const HfArchitecture& is) {
  const std::string scoring = keys.text({"scoring_func", "score_function", "score_func",
                                         "moe_router_activation_func", "moe_router_activation"});
  // Each score by itself, as the square root of softplus is.
  const bool single = scoring == "sigmoid" || scoring == "sqrtsoftplus";
  // Some files name the choice of experts here, "noaux_tc".
  const bool sigmoid = single || (is.sigmoid && scoring != "softmax");
  const std::int64_t groups = keys.number({"n_group", "num_expert_group"}, 1).value_or(1);
  const std::int64_t kept = keys.number({"topk_group"}, 1).value_or(groups);
  const bool greedy = keys.text({"topk_method"}) == "greedy";
  std::string gate = fmt::format("score: {}", sigmoid ? "sigmoid" : "softmax");
  if (groups > 1 && !greedy) gate += fmt::format(", groups: {}, kept_groups: {}", groups, kept);
  return "{" + gate + "}";
}

/// The experts that every token takes.
std::string shared_of(HfKeys& keys, const HfArchitecture& is, std::int64_t expert_width) {
  const bool llama4 = is.layers == HfLayers::interleave;
  const std::int64_t width =
      keys.number(is.ffn_next_to_experts ? own_width_key : shared_width_key).value_or(0);
  const std::int64_t count = keys.number(shared_key).value_or(width > 0 || llama4 ? 1 : 0);
  if (count == 0) return "";
  return fmt::format("shared_experts: {}\nshared_ffn: {}\nshared_gate: {}\n", count,
                     width > 0 ? width : expert_width, is.shared_gate && width > 0);
}

/// Which layers have experts, and what the others have.
std::string layers_of(HfKeys& keys, const HfArchitecture& is, std::int64_t layers) {
  if (is.layers == HfLayers::pattern) {
    const std::string pattern = keys.text({"hybrid_override_pattern"});
    if (pattern.empty()) keys.refuse("the file lacks the key 'hybrid_override_pattern'");
    if (pattern.find_first_not_of("M*E-") != std::string::npos) {
      keys.refuse("'hybrid_override_pattern' has other letters than M, *, E and -");
      return "";
    }
    return fmt::format(
        "pattern: '{}'\nmamba: {{heads: {}, head_dim: {}, groups: {}, state: {}, conv: {}}}\n",
        pattern, keys.need({"mamba_num_heads"}), keys.need({"mamba_head_dim"}),
        keys.need({"n_groups"}), keys.need({"ssm_state_size"}), keys.need({"conv_kernel"}));
  }
  auto numbers = listed_layers(keys, layers);
  if (!numbers) numbers = layers_by_rule(keys, is.layers, layers);
  if (numbers->empty() || numbers->back() >= layers) {
    keys.refuse(fmt::format("none of its {} layers has experts, or others than these", layers));
    return "";
  }
  std::string text = "moe_layers: " + layers_text_of(*numbers) + "\n";
  const HfNames dense_key = is.layers == HfLayers::interleave
                                ? HfNames{"intermediate_size_mlp"}
                                : HfNames{"dense_intermediate_size", "intermediate_size"};
  const bool all = std::ssize(*numbers) == layers;
  const auto dense = all ? std::nullopt : keys.number(dense_key, 1);
  if (dense) text += fmt::format("dense_ffn: {}\n", *dense);
  return text;
}

/// All of the routed and shared experts, and where they are.
std::string experts_of(HfKeys& keys, const HfArchitecture& is, std::int64_t layers) {
  const std::string_view type = is.type;
  HfNames its_width = is.own_width ? width_key : own_width_key;
  // Hunyuan's experts have a width of their own only if the file names it.
  if (type == "hunyuan_v1_moe") its_width.push_back(own_width_key.front());
  const std::int64_t width = keys.need(its_width);
  std::string text = fmt::format("experts: {}\ntop_k: {}\nexpert_ffn: {}\nexpert_matrices: {}\n",
                                 keys.need(experts_key), keys.need(top_k_key), width,
                                 is.layers == HfLayers::pattern ? 2 : 3);
  if (const auto streams = keys.number({"hc_mult"}, 1)) {
    text += fmt::format("residual_streams: {}\n", *streams);
  }
  if (const auto latent = keys.number({"moe_latent_size"}, 1)) {
    text += fmt::format("latent: {}\n", *latent);
  }
  text += layers_of(keys, is, layers);
  text += shared_of(keys, is, width);
  text += fmt::format("gate: {}\n", gate_of(keys, is));
  if (const auto hashed = keys.number({"num_hash_layers"}, 1)) {
    text += fmt::format("hash_layers: {}\n", *hashed);
  }
  if (is.router_bias) text += "router_bias: true\n";
  if (type == "gpt_oss") text += "expert_bias: true\n";
  return text;
}

const HfArchitecture& architecture_of(const HfKeys& keys, const HfKeys& outer,
                                      const std::string& path) {
  const std::string type = (keys.has({"model_type"}) ? keys : outer).text({"model_type"});
  if (type.empty()) {
    throw error_in(path, "the file lacks the key 'model_type'",
                   "is it a config.json of Hugging Face?");
  }
  const HfArchitecture* is = hf_architecture(type);
  if (is != nullptr) return *is;
  const auto types = hf_architecture_types();
  const std::string close = nearest(type, types);
  throw error_in(
      path, fmt::format("'model_type' is '{}', no architecture that is known here", type),
      close.empty() ? fmt::format("known: {}; models/README.md describes model files, which say "
                                  "the same",
                                  fmt::join(types, ", "))
                    : fmt::format("did you mean '{}'?", close));
}

}  // namespace

bool is_hf_config(const std::string& path, const std::string& text) {
  return path.ends_with(".json") && text.find("\"moe_layers\": {") == std::string::npos &&
         text.find("\"expert_matrices\"") == std::string::npos &&
         text.find("\"dense_matrices\"") == std::string::npos;
}

std::string model_text_of_hf_config(const std::string& path, const std::string& text) {
  const Json root = parse_json(text, {path, 1, ""});
  if (!root.is_object())
    throw error_in(path, "is not a config.json of Hugging Face: it is not an object");
  const HfKeys outer(root, path);
  HfKeys keys(text_part(root), path);
  const HfArchitecture& is = architecture_of(keys, outer, path);
  const std::int64_t layers = keys.need(layers_key);
  const std::int64_t hidden = keys.need({"hidden_size", "d_model"});
  const std::string types = type_of_rows(keys, outer);
  std::string model = fmt::format(
      "name: '{}'\ndescription: '{} of {}'\nsource: config.json of Hugging Face\n"
      "hidden: {}\nlayers: {}\nactivations: {}\nweights: {}\n",
      hf_model_name(keys, path, is.type), is.type,
      hf_harmless(std::filesystem::path(path).filename().string()), hidden, layers, types, types);
  model += is.layers == HfLayers::none
               ? fmt::format("dense_ffn: {}\ndense_matrices: {}\n",
                             keys.need({"intermediate_size"}), is.gated ? 3 : 2)
               : experts_of(keys, is, std::min<std::int64_t>(layers, max_layer_number));
  model += hf_attention(keys, is, hidden, layers);
  if (const auto words = keys.number({"vocab_size"}, 1)) {
    model += fmt::format("vocabulary: {}\n", *words);
  }
  if (keys.flag({"tie_word_embeddings"}, false)) model += "tied_embeddings: true\n";
  const auto mtp = keys.number(mtp_key);
  const std::string mtp_blocks = keys.text({"mtp_hybrid_override_pattern"});
  const bool mtp_known = is.layers != HfLayers::pattern || mtp_blocks.empty() || mtp_blocks == "*E";
  if (mtp && *mtp > 0 && mtp_known) model += fmt::format("mtp: {}\n", *mtp);
  keys.finish();
  return model;
}

}  // namespace moesim
