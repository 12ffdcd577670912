// SPDX-License-Identifier: Apache-2.0
#include "sim/model/hf_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <vector>

#include "sim/base/most.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

const HfNames layers_key = {"num_hidden_layers", "n_layers", "num_layers"};
const HfNames pattern_key = {"hybrid_override_pattern", "layers_block_type"};

/// One flag per layer, as some files list them: lists of numbers, of words, or a text of numbers.
std::optional<std::vector<int>> listed_by_file(HfKeys& keys) {
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
      first = of({"moe_layer_num_skipped"}, 0);
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

/// The letter of a block that a file names in a word.
char letter_of(const Json& word) {
  if (word == "mamba" || word == "M") return 'M';
  if (word == "attention" || word == "*") return '*';
  if (word == "moe" || word == "E") return 'E';
  return word == "mlp" || word == "-" ? '-' : '?';
}

/// The blocks of a hybrid, as a text or as a list; '?' for those that are not known.
std::string pattern_in(const HfKeys& keys, const HfNames& names) {
  std::string pattern = keys.text(names);
  const Json* list = keys.find(names);
  if (list != nullptr && list->is_array()) {
    for (const Json& word : *list) pattern += letter_of(word);
  }
  return pattern;
}

/// Two blocks per layer of GraniteMoeHybrid: a mixer, then experts.
std::string mixers_and_experts(const HfKeys& keys) {
  std::string pattern;
  const Json* types = keys.find({"layer_types"});
  if (types == nullptr || !types->is_array()) return pattern;
  for (const Json& type : *types) pattern += std::string{letter_of(type), 'E'};
  return pattern;
}

std::string pattern_of(HfKeys& keys, const HfArchitecture& is) {
  if (is.layers == HfLayers::pattern) return pattern_in(keys, pattern_key);
  if (is.layers == HfLayers::mixers) return mixers_and_experts(keys);
  std::string pattern;
  const std::int64_t layers = keys.number(layers_key, 1).value_or(0);
  for (std::int64_t l = std::min<std::int64_t>(layers, max_layer_number); l > 0; --l) {
    pattern += "*E-*-";  // the experts of a shortcut start next to the first FFN
  }
  return pattern;
}

bool has_pattern(const HfArchitecture& is) {
  return is.layers == HfLayers::pattern || is.layers == HfLayers::mixers ||
         is.layers == HfLayers::shortcut;
}

std::string patterned(HfKeys& keys, const HfArchitecture& is) {
  const std::string pattern = pattern_of(keys, is);
  if (pattern.empty()) {
    keys.refuse(is.layers == HfLayers::mixers
                    ? "the file lacks the key 'layer_types'"
                    : "the file lacks the key 'hybrid_override_pattern' or 'layers_block_type'");
    return "";
  }
  if (pattern.find_first_not_of("M*E-") != std::string::npos) {
    keys.refuse("a layer is neither Mamba-2 (M), attention (*), experts (E) nor an FFN (-)");
    return "";
  }
  std::string text = fmt::format("pattern: '{}'\n", pattern);
  if (pattern.find('-') != std::string::npos) {
    text += fmt::format("dense_ffn: {}\n", keys.need({"ffn_hidden_size", "intermediate_size"}));
  }
  if (pattern.find('M') == std::string::npos) return text;
  return text + fmt::format("mamba: {{heads: {}, head_dim: {}, groups: {}, state: {}, conv: {}}}\n",
                            keys.need({"mamba_num_heads", "mamba_n_heads"}),
                            keys.need({"mamba_head_dim", "mamba_d_head"}),
                            keys.need({"n_groups", "mamba_n_groups"}),
                            keys.need({"ssm_state_size", "mamba_d_state"}),
                            keys.need({"conv_kernel", "mamba_d_conv"}));
}

}  // namespace

HfLayers hf_layers_by_keys(const HfKeys& keys) {
  if (keys.has(pattern_key)) return HfLayers::pattern;
  if (keys.has({"first_k_dense_replace"})) return HfLayers::first_k;
  if (keys.has({"interleave_moe_layer_step"})) return HfLayers::interleave;
  if (keys.has({"expert_layer_period"})) return HfLayers::period;
  if (keys.has({"moe_layer_start_index", "moe_layer_interval"})) return HfLayers::interval;
  if (keys.has({"num_dense_layers"})) return HfLayers::dense_first;
  return keys.has({"decoder_sparse_step", "mlp_only_layers"}) ? HfLayers::sparse : HfLayers::all;
}

std::int64_t hf_layer_count(HfKeys& keys, const HfArchitecture& is) {
  const auto blocks = has_pattern(is) ? std::ssize(pattern_of(keys, is)) : 0;
  if (blocks == 0) return keys.need(layers_key);
  const auto own = keys.number(layers_key, 1).value_or(blocks);
  if (is.layers == HfLayers::pattern || own == 0) return own;
  keys.note(fmt::format("each of its {} layers is {} blocks here, one after the other", own,
                        blocks / own));
  return blocks;
}

std::string hf_layers(HfKeys& keys, const HfArchitecture& is, std::int64_t layers) {
  if (has_pattern(is)) return patterned(keys, is);
  auto numbers = listed_by_file(keys);
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

}  // namespace moesim
