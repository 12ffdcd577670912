// SPDX-License-Identifier: Apache-2.0
#include "sim/model/offload.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/yaml.h"

namespace moesim {

const std::vector<std::string>& offload_module_names() {
  static const std::vector<std::string> names = {"attn_norm", "qkv_linear",     "core_attn",
                                                 "attn_proj", "mlp_norm",       "expert_fc1",
                                                 "moe_act",   "fused_group_mlp"};
  return names;
}

std::string text_of(const Offload& modules) {
  return modules.empty()
             ? "none"
             : fmt::format("{}", fmt::join(modules.names(offload_module_names()), " + "));
}

Offload read_offload(const YamlValue& value) {
  const auto items = value.is_list() ? value.list() : std::vector<YamlValue>{value};
  if (items.size() == 1 && items[0].is_scalar() && items[0].string() == "none") return {};
  Offload offload;
  for (const YamlValue& item : items) {
    offload.add(static_cast<OffloadModule>(item.choice(offload_module_names())));
  }
  return offload;
}

}  // namespace moesim
