// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/module_reader.h"

#include <fmt/format.h>

#include <string>

namespace moesim {

void read_fused_grouped_mlp(const YamlMap& scenario, IterationSpec& spec) {
  spec.fused_grouped_mlp = scenario.boolean("fused_grouped_mlp", false);
  if (!spec.fused_grouped_mlp || !scenario.good({"precision", "recompute"})) return;
  const auto refuse = [&](bool broken, const char* key, const std::string& value,
                          const char* hint) {
    if (!broken) return;
    scenario.find("fused_grouped_mlp")
        ->error(fmt::format("'fused_grouped_mlp' with '{}: {}'", key, value), hint);
  };
  const Precision& precision = spec.precision;
  const bool has_kernels =
      precision.format == TrainingPrecision::mxfp8 || precision.format == TrainingPrecision::nvfp4;
  refuse(!has_kernels || !precision.parts.has(GemmPart::experts), "precision", precision.text(),
         "mxfp8 or nvfp4 of experts: its kernels write what they quantized");
  refuse(spec.recompute.has(RecomputeModule::moe_act), "recompute", spec.recompute.text(),
         "without moe_act: no kernel of its own could run again");
}

void read_offload(const YamlMap& scenario, IterationSpec& spec) {
  const auto value = scenario.find("offload");
  if (!value) return;
  spec.offload = read_offload(*value);
  if (!scenario.good({"offload", "recompute", "paged_stash", "fused_grouped_mlp"})) return;
  using enum OffloadModule;
  const Offload parts = {expert_fc1, moe_act}, experts = {expert_fc1, moe_act, fused_group_mlp};
  const auto refuse = [&](bool broken, const std::string& what, const char* hint) {
    if (broken) value->error(fmt::format("'offload: {}' {}", text_of(spec.offload), what), hint);
  };
  const Recompute& again = spec.recompute;
  refuse(again.has(RecomputeModule::full) && !spec.offload.empty(), "with 'recompute: full'",
         "recompute modules, or nothing: else only inputs of layers are kept");
  refuse(again.has(RecomputeModule::moe) && spec.offload.has_any(experts),
         "with 'recompute: " + again.text() + "'", "without moe, which keeps nothing of experts");
  refuse(spec.stash.has_value() && spec.offload.has_any(experts), "with 'paged_stash'",
         "leave one of them out: the stash has what experts keep");
  refuse(spec.fused_grouped_mlp && spec.offload.has_any(parts), "with 'fused_grouped_mlp'",
         "fused_group_mlp: their tensors leave together");
  refuse(!spec.fused_grouped_mlp && spec.offload.has(fused_group_mlp),
         "without 'fused_grouped_mlp'", "expert_fc1, moe_act");
  refuse(spec.offload.has(attn_proj) && !spec.offload.has(core_attn), "without core_attn",
         "core_attn, too: both need the result of the scores");
}

}  // namespace moesim
