// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

struct LeftOut {
  const char* key;
  const char* note;
};

constexpr std::array left_out = {
    LeftOut{"zero_expert_num",
            "experts that compute nothing (zero_expert_num) are left out: every "
            "chosen one is real here"},
    LeftOut{"parallel_expert_intermediate_size",
            "small experts that groups share (parallel_expert_intermediate_size) are left out"},
    LeftOut{"emb_neighbor_num", "n-gram embeddings (emb_neighbor_num) are left out"},
    LeftOut{"use_cla", "layers share keys and values (use_cla), each has its own here"}};

/// Neither absent nor 0, false or empty.
bool is_set(const Json* value) {
  if (value == nullptr) return false;
  if (value->is_boolean()) return value->get<bool>();
  return value->is_number() ? *value != 0 : !value->empty();
}

bool lists_other(const Json* kinds, std::initializer_list<const char*> usual) {
  return kinds != nullptr && kinds->is_array() &&
         std::ranges::any_of(*kinds, [&](const Json& kind) {
           return std::ranges::none_of(usual, [&](const char* name) { return kind == name; });
         });
}

const HfNames method_key = {"quantization_config.quant_method", "quantization.qformat_weight"};

/// Integers of four bits: of compressed-tensors, or of AWQ or GPTQ.
bool stores_int4(const HfKeys& keys, const HfKeys& outer) {
  const HfNames bits_key = {"quantization_config.config_groups.group_0.weights.num_bits",
                            "quantization_config.bits"};
  const Json* bits = (keys.has(bits_key) ? keys : outer).find(bits_key);
  if (bits == nullptr || *bits != 4) return false;
  const std::string method = text_of(keys, outer, method_key);
  if (method == "awq" || method == "gptq") return true;
  return text_of(keys, outer, {"quantization_config.format"}) == "pack-quantized";
}

void note_quantization(HfKeys& keys, const HfKeys& outer, const std::string& rows) {
  std::string method = text_of(keys, outer, method_key);
  const HfNames bits_key = {"quantization.bits", "quantization_config.bits"};
  if (const Json* bits = outer.find(bits_key); method.empty() && bits != nullptr) {
    method = bits->dump() + "-bit";  // of MLX
  }
  if (method.empty()) return;
  const std::string served = hf_checkpoint(keys, outer);
  keys.note(served.empty()
                ? fmt::format("weights are {}, as computed; the file stores {} (serving.precision)",
                              rows, hf_harmless(method))
                : fmt::format("engines serve {}, training has {}", served, rows));
}

}  // namespace

std::string hf_harmless(std::string name) {
  for (char& c : name) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    if (!plain && std::string_view("-_.+").find(c) == std::string_view::npos) c = '_';
  }
  return name.empty() ? "model" : name;
}

std::string hf_model_name(const HfKeys& keys, const std::string& path, const std::string& type) {
  const std::filesystem::path file(path);
  if (file.stem() != "config" && file.stem() != "params") return hf_harmless(file.stem().string());
  const std::string given = std::filesystem::path(keys.text({"_name_or_path"})).filename().string();
  const std::string folder =
      file.has_parent_path() ? file.parent_path().filename().string() : std::string();
  if (!given.empty()) return hf_harmless(given);
  return hf_harmless(folder.empty() || folder.starts_with(".") ? type : folder);
}

std::string hf_checkpoint(const HfKeys& keys, const HfKeys& outer) {
  if (keys.text({"expert_dtype"}) == "fp4") return "mxfp4-mxfp8";  // DeepSeek-V4
  // Methods, and the formats or algorithms of methods that have several.
  static const std::map<std::string, std::string> formats = {{"fp8", "fp8"},
                                                             {"mxfp4", "mxfp4"},
                                                             {"float-quantized", "fp8"},
                                                             {"nvfp4-pack-quantized", "nvfp4"},
                                                             {"mxfp4-pack-quantized", "mxfp4"},
                                                             {"FP8", "fp8"},
                                                             {"NVFP4", "nvfp4"}};
  for (const HfNames& key : {HfNames{"quantization_config.quant_algo"},
                             HfNames{"quantization_config.format"}, method_key}) {
    const auto known = formats.find(text_of(keys, outer, key));
    if (known != formats.end()) return known->second;
  }
  return stores_int4(keys, outer) ? "int4" : "";
}

bool has_other_attention(const HfKeys& keys) {
  for (const char* key : {"linear_attn_config", "mamba_d_state", "conv_L_cache", "attn_type_list",
                          "hybrid_layer_pattern", "layer_group_size", "linear_num_heads"}) {
    if (is_set(keys.find({key}))) return true;
  }
  return lists_other(keys.find({"layer_types"}), {"full_attention", "sliding_attention",
                                                  "chunked_attention", "linear_attention"});
}

void note_left_out(HfKeys& keys, const HfKeys& outer, const HfArchitecture& is,
                   const std::string& rows) {
  for (const auto& [key, note] : left_out) {
    if (is_set(keys.find({key}))) keys.note(note);
  }
  const Json* experts = keys.find({"moe_num_experts"});
  if (experts != nullptr && experts->is_array() && experts->size() > 1) {
    keys.note(
        "only experts for text: those for images (the second of moe_num_experts) are left "
        "out");
  }
  if (!is.usual_attention) {
    keys.note("its attention has no form in model files: only layers of experts are simulated");
  }
  note_quantization(keys, outer, rows);
}

}  // namespace moesim
