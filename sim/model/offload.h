// SPDX-License-Identifier: Apache-2.0
// Modules whose inputs wait in the memory of the host from the forward to the backward pass, in the
// words of Megatron-LM's --offload-modules (fine_grained_activation_offload.py, d98e8a64).
#pragma once

#include <string>
#include <vector>

#include "sim/base/enum_set.h"

namespace moesim {

class YamlValue;

enum class OffloadModule {
  attn_norm,   // norm of latent attention: the layer's input
  qkv_linear,  // what makes queries, keys and values: its inputs, with the norm's if it is fused
  core_attn,   // scores: queries, keys, values
  attn_proj,   // projection of the output: result of the scores
  mlp_norm,    // norm of a MoE block: the block's input
  expert_fc1,  // first product of routed experts: arrived rows
  moe_act,     // their activation: results of the first product
  fused_group_mlp  // all of routed experts, if their products are fused with the activation
};
const std::vector<std::string>& offload_module_names();  // by number
using Offload = EnumSet<OffloadModule>;

/// "core_attn + attn_proj", "none"
std::string text_of(const Offload& modules);

/// "none", a module, or a list of modules; mistakes are recorded.
Offload read_offload(const YamlValue& value);

}  // namespace moesim
