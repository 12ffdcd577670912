// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_attention.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

const HfNames heads_key = {"num_attention_heads", "n_heads"};

/// Every how many layers one is full, if the file lists kinds of layers in such a rhythm; 0 if it
/// does not. `unlisted`: what the architecture has without a list.
std::int64_t full_every(HfKeys& keys, std::int64_t layers, std::int64_t unlisted) {
  const Json* types = keys.find({"layer_types"});
  if (types == nullptr || !types->is_array()) {
    return keys.number({"full_attention_interval"}, 2).value_or(unlisted);
  }
  for (std::int64_t every = 2; every <= layers; ++every) {
    bool fits = std::ssize(*types) == layers;
    for (std::int64_t l = 0; fits && l < layers; ++l) {
      fits = ((*types)[static_cast<std::size_t>(l)] == "full_attention") == ((l + 1) % every == 0);
    }
    if (fits) return every;
  }
  return 0;
}

/// Whether a list gives windows to some layers.
bool names_windows(const HfKeys& keys) {
  const Json* kinds = keys.find({"sliding_window_layout", "layer_types"});
  return kinds != nullptr && kinds->is_array() && std::ranges::any_of(*kinds, [](const Json& kind) {
           return kind == 1 || kind == "sliding_attention" || kind == "chunked_attention";
         });
}

/// What chooses keys; configurations of DeepSeek-V3.2's kind name it.
std::string indexer(HfKeys& keys) {
  if (!keys.has({"index_topk"})) return "";
  return fmt::format(", indexer: {{heads: {}, dim: {}, top_k: {}}}", keys.need({"index_n_heads"}),
                     keys.need({"index_head_dim"}), keys.need({"index_topk"}));
}

std::string latent(HfKeys& keys, std::int64_t heads) {
  std::string shape = fmt::format("kind: mla, heads: {}", heads);
  if (const auto rank = keys.number({"q_lora_rank"}, 1))
    shape += fmt::format(", q_rank: {}", *rank);
  return shape +
         fmt::format(", kv_rank: {}, nope_dim: {}, rope_dim: {}, value_dim: {}",
                     keys.need({"kv_lora_rank"}), keys.need({"qk_nope_head_dim"}),
                     keys.need({"qk_rope_head_dim"}), keys.need({"v_head_dim"})) +
         indexer(keys);
}

/// DeepSeek-V4's. A file may list a ratio for layers of multi-token prediction, too.
std::string compressed(HfKeys& keys, std::int64_t heads, std::int64_t layers) {
  std::vector<std::int64_t> ratios = keys.numbers({"compress_ratios"});
  if (std::ssize(ratios) > layers) ratios.resize(static_cast<std::size_t>(layers));
  return fmt::format(
             "kind: compressed, heads: {}, head_dim: {}, rope_dim: {}, q_rank: {}, window: {}, "
             "output_groups: {}, output_rank: {}, ratios: [{}]",
             heads, keys.need({"head_dim"}), keys.need({"qk_rope_head_dim"}),
             keys.need({"q_lora_rank"}), keys.need({"sliding_window"}), keys.need({"o_groups"}),
             keys.need({"o_lora_rank"}), fmt::join(ratios, ", ")) +
         indexer(keys) + ", sinks: true";
}

/// The layers that do not attend to all tokens before.
std::string other_layers(HfKeys& keys, const HfArchitecture& is, std::int64_t layers) {
  const HfNames chunk_key = {"attention_chunk_size"};
  const std::int64_t unlisted = is.type == "gpt_oss" ? 2
                                : !keys.has(chunk_key)
                                    ? 0
                                    : keys.number({"no_rope_layer_interval"}, 2).value_or(4);
  const std::int64_t every = full_every(keys, layers, unlisted);
  if (every < 2) {
    if (names_windows(keys)) {
      keys.note("layers with windows have no rhythm: every layer attends to all tokens before");
    }
    return "";
  }
  if (keys.has({"linear_num_key_heads"})) {
    return fmt::format(
        ", full_every: {}, linear: {{key_heads: {}, value_heads: {}, key_dim: {}, value_dim: {}, "
        "conv: {}}}",
        every, keys.need({"linear_num_key_heads"}), keys.need({"linear_num_value_heads"}),
        keys.need({"linear_key_head_dim"}), keys.need({"linear_value_head_dim"}),
        keys.need({"linear_conv_kernel_dim"}));
  }
  auto window = keys.number({"sliding_window"}, 1);
  if (!window && (window = keys.number(chunk_key, 1))) {
    keys.note("its chunks of attention are windows of as many tokens: an upper bound");
  }
  return window ? fmt::format(", full_every: {}, window: {}", every, *window) : "";
}

/// YaRN scales rotated queries and keys unless the file takes the scale back. GPT-OSS has it by
/// default.
bool scales_rotary(const HfKeys& keys, std::string_view type) {
  const Json* scaling = keys.find({"rope_scaling", "rope_parameters"});
  if (scaling == nullptr || !scaling->is_object()) return type == "gpt_oss";
  for (const char* key : {"rope_type", "type"}) {
    if (scaling->contains(key) && (*scaling)[key] == "yarn") {
      return !scaling->contains("mscale_all_dim") && !scaling->contains("attention_factor");
    }
  }
  return false;
}

}  // namespace

std::string hf_attention(HfKeys& keys, const HfArchitecture& is, std::int64_t hidden,
                         std::int64_t layers) {
  const auto heads = keys.number(heads_key, 1);
  if (!heads || !is.usual_attention) return "";
  if (keys.has({"kv_lora_rank"})) return "attention: {" + latent(keys, *heads) + "}\n";
  if (keys.has({"compress_ratios"})) {
    return "attention: {" + compressed(keys, *heads, layers) + "}\n";
  }
  auto width = keys.number({"head_dim"}, 1);
  if (!width && hidden % *heads == 0) width = hidden / *heads;
  const std::int64_t kv_heads =
      keys.number({"num_key_value_heads", "attn_config.kv_n_heads", "num_attention_groups"}, 1)
          .value_or(*heads);
  if (!width) return "";
  if (*heads % kv_heads != 0) {
    keys.refuse(fmt::format("'num_key_value_heads' is {}, which does not divide {} heads", kv_heads,
                            *heads));
  }
  const std::string_view type = is.type;
  std::string shape =
      fmt::format("heads: {}, kv_heads: {}, head_dim: {}", *heads, kv_heads, *width);
  if (keys.flag({"use_qk_norm", "qk_layernorm", "qk_norm"}, is.qk_norm)) shape += ", qk_norm: true";
  if (keys.flag({"attention_bias", "qkv_bias", "use_qkv_bias"}, is.attention_bias)) {
    shape += ", bias: true";
  }
  if (type == "gpt_oss" || type == "gpt_neox") shape += ", output_bias: true";
  if (scales_rotary(keys, type)) shape += ", yarn: true";
  if (type == "gpt_oss") shape += ", sinks: true";
  if (is.output_gate) shape += ", output_gate: true";
  return "attention: {" + shape + other_layers(keys, is, layers) + "}\n";
}

}  // namespace moesim
