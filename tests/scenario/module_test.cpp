// SPDX-License-Identifier: Apache-2.0
// Keys that treat modules of a layer by themselves, and what they refuse next to each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/scenario/scenario_text.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string module_batch = "batch: {global: 64, sequence: 4096}\n";

IterationSpec modules_of(const std::string& keys) {
  const std::string text =
      "topology: h100-rail\nmodel: deepseek-v3\ntrace: /no/such\npolicy: megatron\n" + keys;
  return parse_scenario(text, "modules.yaml", {}).iteration.value();
}

std::string module_mistakes(const std::string& keys) {
  return error_of([&] { modules_of(keys); });
}

TEST(Modules, FusedGroupedMlpIsOfExpertsInItsFormats) {
  EXPECT_TRUE(
      modules_of("precision: nvfp4\nfused_grouped_mlp: true\n" + module_batch).fused_grouped_mlp);
  for (const std::string precision :
       {"bf16", "fp8-blockwise", "{format: mxfp8, parts: [attention]}"}) {
    EXPECT_THAT(
        module_mistakes("precision: " + precision + "\nfused_grouped_mlp: true\n" + module_batch),
        AllOf(HasSubstr("'fused_grouped_mlp' with 'precision: "), HasSubstr("mxfp8 or nvfp4")));
  }
  EXPECT_THAT(module_mistakes("precision: mxfp8\nfused_grouped_mlp: true\nrecompute: moe_act\n" +
                              module_batch),
              AllOf(HasSubstr("'fused_grouped_mlp' with 'recompute: moe_act'"),
                    HasSubstr("no kernel of its own could run again")));
}

TEST(Modules, OffloadHasMegatronsRules) {
  const auto mistakes = [](const std::string& keys) {
    return module_mistakes(keys + "\n" + module_batch);
  };
  EXPECT_TRUE(modules_of("offload: none\n" + module_batch).offload.empty());
  EXPECT_TRUE(
      modules_of("offload: expert_fc1\n" + module_batch).offload.has(OffloadModule::expert_fc1));
  EXPECT_THAT(mistakes("offload: [expert_fc2]"), HasSubstr("did you mean 'expert_fc1'?"));
  EXPECT_THAT(mistakes("offload: attn_proj"),
              AllOf(HasSubstr("'offload: attn_proj' without core_attn"), HasSubstr("hint: ")));
  EXPECT_THAT(mistakes("offload: mlp_norm\nrecompute: full"), HasSubstr("with 'recompute: full'"));
  EXPECT_THAT(mistakes("offload: moe_act\nrecompute: moe"), HasSubstr("with 'recompute: moe'"));
  EXPECT_THAT(mistakes("offload: moe_act\npaged_stash: {}"), HasSubstr("with 'paged_stash'"));
  EXPECT_THAT(mistakes("offload: fused_group_mlp"), HasSubstr("without 'fused_grouped_mlp'"));
  EXPECT_THAT(mistakes("offload: moe_act\nprecision: mxfp8\nfused_grouped_mlp: true"),
              HasSubstr("with 'fused_grouped_mlp'"));
}

}  // namespace
}  // namespace moesim
