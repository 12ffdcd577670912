// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/json.h"
#include "sim/base/most.h"
#include "sim/model/hf_architectures.h"
#include "sim/model/hf_attention.h"
#include "sim/model/hf_keys.h"
#include "sim/model/hf_layers.h"
#include "sim/model/hf_left_out.h"
#include "sim/model/hf_params.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

const HfNames experts_key = {
    "n_routed_experts",          "num_routed_experts", "num_experts",
    "num_local_experts",         "moe_num_experts",    "moe_num_primary_experts",
    "ffn_config.moe_num_experts"};
const HfNames top_k_key = {"num_experts_per_tok",
                           "num_experts_per_token",
                           "experts_per_token",
                           "topk",
                           "moe_topk",
                           "moe_top_k",
                           "moe_k",
                           "moe_num_active_primary_experts",
                           "num_selected_experts",
                           "top_k_experts",
                           "ffn_config.moe_top_k"};
const HfNames width_key = {"moe_intermediate_size", "expert_ffn_hidden_size", "expert_hidden_dim",
                           "moe_ffn_hidden_size"};
const HfNames own_width_key = {"intermediate_size", "ffn_hidden_size",
                               "ffn_config.ffn_hidden_size"};
const HfNames shared_key = {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts",
                            "num_shared_expert"};
const HfNames shared_width_key = {
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
    "moe_shared_intermediate_size", "shared_intermediate_size", "share_expert_dim"};
const HfNames longest_key = {"max_position_embeddings", "max_sequence_length", "max_seq_len",
                             "n_positions"};
const HfNames mtp_key = {"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers",
                         "mtp_num_layers", "num_mtp_layers"};

/// What model files of ours call these.
const std::pair<std::string, HfNames> names_of_keys[] = {
    {"experts", experts_key},
    {"top_k", top_k_key},
    {"expert_ffn", width_key},
    {"expert_ffn", own_width_key},
    {"dense_ffn", own_width_key},
    {"shared_experts", shared_key},
    {"shared_ffn", shared_width_key},
    {"hidden", {"hidden_size", "d_model"}},
    {"layers", {"num_hidden_layers", "n_layers", "num_layers"}},
    {"vocabulary", {"vocab_size"}},
    {"longest", longest_key},
    {"mtp", mtp_key}};

/// A message with the config's names of what it quotes.
std::string in_names_of(const HfKeys& keys, std::string message) {
  for (const auto& [ours, names] : names_of_keys) {
    const auto its = std::ranges::find_if(names, [&](const auto& n) { return keys.has({n}); });
    const std::string quoted = "'" + ours + "'";
    const auto at = message.find(quoted);
    if (its == names.end() || at == std::string::npos) continue;
    message.replace(at, quoted.size(), "'" + *its + "'");
  }
  return message;
}

/// Models of images and text describe the latter in a part of its own.
const Json& text_part(const Json& root) {
  for (const char* name : {"text_config", "llm_config", "language_config", "thinker_config"}) {
    const auto at = root.find(name);
    if (at != root.end() && at->is_object()) return text_part(*at);
  }
  return root;
}

std::string type_of_rows(const std::string& named) {
  if (named.find("float16") != std::string::npos && named.find("bfloat16") == std::string::npos) {
    return "fp16";
  }
  return named.find("float32") != std::string::npos ? "fp32" : "bf16";
}

std::string gate_of(HfKeys& keys, const HfArchitecture& is) {
  const std::string scoring =
      keys.text({"scoring_func", "score_function", "score_func", "moe_router_activation_func",
                 "moe_router_activation", "moe_router_score_func"});
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

/// The width of what every token takes next to its experts; 0 if the file says none.
std::int64_t width_of_shared(HfKeys& keys, const HfArchitecture& is) {
  if (is.ffn_next_to_experts || keys.flag({"residual_moe"}, false)) {
    return keys.number(own_width_key).value_or(0);
  }
  if (is.type == "arctic" && keys.flag({"parallel_attn_mlp_res"}, true)) {
    return keys.need({"hidden_size"});
  }
  return keys.number(shared_width_key).value_or(0);
}

/// The experts that every token takes.
std::string shared_of(HfKeys& keys, const HfArchitecture& is, std::int64_t expert_width) {
  const bool llama4 = is.layers == HfLayers::interleave;
  const std::int64_t width = width_of_shared(keys, is);
  const std::int64_t count = keys.number(shared_key).value_or(width > 0 || llama4 ? 1 : 0);
  if (count == 0) return "";
  return fmt::format("shared_experts: {}\nshared_ffn: {}\nshared_gate: {}\n", count,
                     width > 0 ? width : expert_width, is.shared_gate && width > 0);
}

/// All of the routed and shared experts, and where they are.
std::string experts_of(HfKeys& keys, const HfArchitecture& is, std::int64_t layers) {
  HfNames its_width = width_key;
  if (!is.own_width) its_width.insert(its_width.end(), own_width_key.begin(), own_width_key.end());
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
  text += hf_layers(keys, is, layers);
  text += shared_of(keys, is, width);
  text += fmt::format("gate: {}\n", gate_of(keys, is));
  if (const auto hashed = keys.number({"num_hash_layers"}, 1)) {
    text += fmt::format("hash_layers: {}\n", *hashed);
  }
  if (is.router_bias) text += "router_bias: true\n";
  if (is.type == "gpt_oss") text += "expert_bias: true\n";
  return text;
}

/// By the names of its class or its type; those of the part for text win.
const HfArchitecture* named_architecture(const HfKeys& keys, const HfKeys& outer) {
  for (const HfKeys* part : {&keys, &outer}) {
    const Json* classes = part->find({"architectures"});
    const bool named = classes != nullptr && classes->is_array() && !classes->empty() &&
                       classes->front().is_string();
    const auto* is =
        hf_architecture_of_class(named ? classes->front().get<std::string>() : std::string());
    if (is == nullptr) is = hf_architecture(part->text({"model_type"}));
    if (is != nullptr) return is;
  }
  return nullptr;
}

/// What the keys of a file with experts say of an architecture that is not known.
HfArchitecture architecture_by_keys(HfKeys& keys, const std::string& type) {
  keys.note(
      fmt::format("read by its keys, since no architecture {} is known here", hf_harmless(type)));
  return {.type = "",
          .layers = hf_layers_by_keys(keys),
          .own_width = keys.has(width_key),
          .usual_attention = !has_other_attention(keys)};
}

[[noreturn]] void refuse_architecture(const std::string& path, const std::string& type) {
  if (type.empty()) {
    throw error_in(path, "the file lacks the key 'model_type'",
                   "is it a config.json of Hugging Face, or a params.json of Mistral?");
  }
  const auto types = hf_architecture_types();
  const std::string close = nearest(type, types);
  throw error_in(
      path,
      fmt::format("'model_type' is '{}', no architecture that is known here, and no key names its "
                  "experts",
                  type),
      close.empty() ? fmt::format("known: {}; models/README.md describes model files, which say "
                                  "the same",
                                  fmt::join(types, ", "))
                    : fmt::format("did you mean '{}'?", close));
}

HfArchitecture architecture_of(HfKeys& keys, const HfKeys& outer, const std::string& path) {
  const bool encodes = outer.has({"num_sparse_encoder_layers", "encoder_ffn_dim"});
  if (encodes || outer.flag({"is_encoder_decoder"}, false)) {
    throw error_in(path, "is of an encoder and a decoder, which model files cannot say",
                   "models/README.md describes model files: decoders");
  }
  const std::string type = text_of(keys, outer, {"model_type"});
  const HfArchitecture* known = named_architecture(keys, outer);
  const std::int64_t experts = keys.number(experts_key).value_or(0);
  if (known == nullptr && experts == 0) refuse_architecture(path, type);
  if (known == nullptr || (known->layers == HfLayers::none && experts > 1)) {
    return architecture_by_keys(keys, type);
  }
  HfArchitecture is = *known;
  if (experts > 0 || keys.has(width_key) || keys.number(top_k_key).value_or(0) > 0) return is;
  // Families may have members without experts.
  if (is.layers == HfLayers::pattern || is.layers == HfLayers::mixers) {
    throw error_in(path, "is a hybrid without experts, which model files cannot say",
                   "models/README.md describes model files");
  }
  is.layers = HfLayers::none;
  return is;
}

std::string model_of(HfKeys& keys, const HfKeys& outer, const HfArchitecture& is,
                     const std::string& path) {
  const std::string type(is.type.empty() ? "model" : is.type);
  const std::int64_t layers = hf_layer_count(keys, is);
  const std::int64_t hidden = keys.need({"hidden_size", "d_model"});
  const std::string stated = text_of(keys, outer, {"torch_dtype", "dtype"});
  const std::string rows = type_of_rows(stated);
  std::string model = fmt::format(
      "source: config.json of Hugging Face\nhidden: {0}\nlayers: {1}\n"
      "activations: {2}{3}\nweights: {2}{3}\n",
      hidden, layers, rows, stated.empty() ? "  # assumed: no torch_dtype" : "");
  if (const std::string served = hf_checkpoint(keys, outer); !served.empty()) {
    model += fmt::format("checkpoint: {}\n", served);
    if (served == "mxfp4-mxfp8") model += "checkpoint_others: fp8\n";
  }
  model += is.layers == HfLayers::none
               ? fmt::format("dense_ffn: {}\ndense_matrices: {}\n",
                             keys.need({"intermediate_size"}), is.gated ? 3 : 2)
               : experts_of(keys, is, std::min<std::int64_t>(layers, max_layer_number));
  model += hf_attention(keys, is, hidden, layers);
  if (const auto words = keys.number({"vocab_size"}, 1)) {
    model += fmt::format("vocabulary: {}\n", *words);
  }
  if (const auto longest = keys.number(longest_key, 1)) {
    model += fmt::format("longest: {}\n", *longest);
  }
  if (keys.flag({"tie_word_embeddings"}, false)) model += "tied_embeddings: true\n";
  const auto mtp = keys.number(mtp_key);
  const std::string mtp_blocks = keys.text({"mtp_hybrid_override_pattern"});
  const bool mtp_known = is.layers != HfLayers::pattern || mtp_blocks.empty() || mtp_blocks == "*E";
  if (mtp && *mtp > 0 && mtp_known) model += fmt::format("mtp: {}\n", *mtp);
  if (mtp && *mtp > 0 && !mtp_known) keys.note("its multi-token prediction is left out");
  note_left_out(keys, outer, is, rows);
  std::vector<std::string> says = {
      fmt::format("{} of {}", type, hf_harmless(std::filesystem::path(path).filename().string()))};
  says.insert(says.end(), keys.notes().begin(), keys.notes().end());
  return fmt::format("name: '{}'\ndescription: '{}'\n{}", hf_model_name(keys, path, type),
                     fmt::join(says, "; "), model);
}

}  // namespace

bool is_hf_config(const std::string& path, const std::string& text) {
  return path.ends_with(".json") && text.find("\"moe_layers\": {") == std::string::npos &&
         text.find("\"expert_matrices\"") == std::string::npos &&
         text.find("\"dense_matrices\"") == std::string::npos;
}

std::string model_text_of_hf_config(const std::string& path, const std::string& text) {
  Json root = parse_json(without_infinities(text), {path, 1, ""});
  if (!root.is_object())
    throw error_in(path, "is not a config.json of Hugging Face: it is not an object");
  root = config_of_params(root);
  const HfKeys outer(root, path);
  HfKeys keys(text_part(root), path);
  const std::string model = model_of(keys, outer, architecture_of(keys, outer, path), path);
  keys.finish();
  return model;
}

Error error_of_hf_config(const Error& error, const std::string& path, const std::string& config) {
  const Json root = parse_json(without_infinities(config), {path, 1, ""});
  const HfKeys keys(text_part(root), path);
  std::vector<Diagnostic> diagnostics = error.diagnostics();
  for (Diagnostic& d : diagnostics) {
    if (d.file != path) continue;  // of a change that was asked for
    d.line = d.column = 0;
    d.source_line.clear();
    d.message = in_names_of(keys, d.message);
  }
  return Error(std::move(diagnostics));
}

}  // namespace moesim
