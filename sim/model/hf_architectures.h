// SPDX-License-Identifier: Apache-2.0
// What the code of an architecture in transformers settles, and its config.json does not say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// Where the layers without experts are, if the file does not list them.
enum class HfLayers {
  all,          // every layer has experts
  first_k,      // first_k_dense_replace (and moe_layer_freq), which must be there
  sparse,       // decoder_sparse_step and mlp_only_layers, by default every layer
  interleave,   // interleave_moe_layer_step, as Llama 4 counts
  period,       // expert_layer_period and expert_layer_offset
  interval,     // moe_layer_start_index, moe_layer_end_index and moe_layer_interval
  dense_first,  // num_dense_layers
  none,         // a dense model
  pattern,      // hybrid_override_pattern: one block per layer
  mixers,       // layer_types: Mamba-2 or attention, and experts behind each
  shortcut      // LongCat-Flash: two attentions and FFNs, and experts next to them
};

struct HfArchitecture {
  std::string_view type;  // model_type; empty for one that is not known
  HfLayers layers = HfLayers::all;
  bool own_width = true;  // moe_intermediate_size; else intermediate_size is the experts', too
  bool sigmoid = false;   // unless the file says a scoring function
  bool router_bias = false;
  bool qk_norm = false;
  bool attention_bias = false;  // unless the file says
  bool output_gate = false;
  bool shared_gate = false;
  bool usual_attention = true;       // grouped queries or latent, as the keys say; else left out
  bool gated = true;                 // the FFN: gate, up, down; else up and down
  bool ffn_next_to_experts = false;  // of every layer, of intermediate_size: a shared expert
};

/// Null for a type that is not known.
const HfArchitecture* hf_architecture(std::string_view type);
/// The same by the name of a class, BailingMoeV2ForCausalLM.
const HfArchitecture* hf_architecture_of_class(std::string_view name);
std::vector<std::string> hf_architecture_types();

}  // namespace moesim
