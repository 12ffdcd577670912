// SPDX-License-Identifier: Apache-2.0
#include "sim/model/recompute.h"

#include "sim/base/yaml.h"

namespace moesim {
namespace {
unsigned bit_of(RecomputeModule module) { return 1U << static_cast<unsigned>(module); }
}  // namespace

const std::vector<std::string>& recompute_module_names() {
  static const std::vector<std::string> names = {
      "core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "full"};
  return names;
}

const char* name_of(RecomputeModule module) {
  return recompute_module_names().at(static_cast<std::size_t>(module)).c_str();
}

Recompute::Recompute(std::initializer_list<RecomputeModule> modules) {
  for (const RecomputeModule module : modules) add(module);
}

void Recompute::add(RecomputeModule module) { bits_ |= bit_of(module); }

bool Recompute::has(RecomputeModule module) const {
  return (bits_ & (bit_of(module) | bit_of(RecomputeModule::full))) != 0;
}

bool Recompute::covers(const Recompute& modules) const {
  return !modules.empty() && (bits_ & (modules.bits_ | bit_of(RecomputeModule::full))) != 0;
}

std::string Recompute::text() const {
  std::string text;
  for (int i = 0; i < recompute_module_count; ++i) {
    const auto module = static_cast<RecomputeModule>(i);
    if ((bits_ & bit_of(module)) == 0) continue;
    text += (text.empty() ? "" : " + ") + std::string(name_of(module));
  }
  return text.empty() ? "none" : text;
}

Recompute read_recompute(const YamlValue& value) {
  const auto items = value.is_list() ? value.list() : std::vector<YamlValue>{value};
  if (items.size() == 1 && items[0].is_scalar() && items[0].string() == "none") return {};
  Recompute recompute;
  for (const YamlValue& item : items) {
    recompute.add(static_cast<RecomputeModule>(item.choice(recompute_module_names())));
  }
  if (recompute.has(RecomputeModule::full)) return {RecomputeModule::full};
  return recompute;
}

}  // namespace moesim
