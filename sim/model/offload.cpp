// SPDX-License-Identifier: Apache-2.0
#include "sim/model/offload.h"

#include "sim/base/yaml.h"
#include "sim/model/recompute.h"

namespace moesim {

const std::vector<std::string>& offload_module_names() {
  static const std::vector<std::string> names = {"attn_norm", "qkv_linear",     "core_attn",
                                                 "attn_proj", "mlp_norm",       "expert_fc1",
                                                 "moe_act",   "fused_group_mlp"};
  return names;
}

std::string text_of(const Offload& modules) {
  return text_of_modules(modules.names(offload_module_names()));
}

Offload read_offload(const YamlValue& value) {
  Offload offload;
  for (const int module : read_modules(value, offload_module_names())) {
    offload.add(static_cast<OffloadModule>(module));
  }
  return offload;
}

}  // namespace moesim
