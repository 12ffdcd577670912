// SPDX-License-Identifier: Apache-2.0
#include "sim/model/recompute.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/yaml.h"

namespace moesim {

const std::vector<std::string>& recompute_module_names() {
  static const std::vector<std::string> names = {
      "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "full"};
  return names;
}

bool Recompute::has(RecomputeModule module) const {
  return modules_.has_any({module, RecomputeModule::full});
}

bool Recompute::covers(const Recompute& modules) const {
  return !modules.empty() &&
         (modules_.has_any(modules.modules_) || modules_.has(RecomputeModule::full));
}

std::string Recompute::text() const { return text_of_modules(names()); }

std::string text_of_modules(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, " + "));
}

std::vector<int> read_modules(const YamlValue& value, const std::vector<std::string>& names) {
  const auto items = value.is_list() ? value.list() : std::vector<YamlValue>{value};
  if (items.size() == 1 && items[0].is_scalar() && items[0].string() == "none") return {};
  std::vector<int> numbers;
  for (const YamlValue& item : items) numbers.push_back(item.choice(names));
  return numbers;
}

Recompute read_recompute(const YamlValue& value) {
  Recompute recompute;
  for (const int module : read_modules(value, recompute_module_names())) {
    recompute.add(static_cast<RecomputeModule>(module));
  }
  if (recompute.has(RecomputeModule::full)) return {RecomputeModule::full};
  return recompute;
}

}  // namespace moesim
