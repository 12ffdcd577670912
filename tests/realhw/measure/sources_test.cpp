// SPDX-License-Identifier: Apache-2.0
// Steps as they are planned and as they are saved, and what all their ranks compute in one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "realhw/measure/local_numerics.h"
#include "realhw/measure/planned_source.h"
#include "realhw/measure/saved_source.h"
#include "sim/base/files.h"
#include "sim/base/unsuitable.h"
#include "sim/scenario/executable_steps.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Scenario two_steps() {
  return read_scenario("", {{"topology", "hiermoe-a6000", "t"},
                            {"model", "tiny-moe", "m"},
                            {"trace", MOESIM_ROOT "/traces/tiny-moe-train", "r"},
                            {"policy", "[dedup, megatron]", "p"},
                            {"steps", "'2:4'", "s"},
                            {"tokens_per_rank", "4", "k"},
                            {"layers", "[1]", "l"},
                            {"set", "topology.nodes=1", "--set"},
                            {"set", "topology.node.gpus=2", "--set"},
                            {"set", "model.hidden=16", "--set"},
                            {"set", "model.expert_ffn=8", "--set"}});
}

std::vector<std::string> plans_of(StepSource& source, std::size_t policy) {
  std::vector<std::string> names;
  source.begin(policy);
  while (const auto step = source.next()) {
    names.push_back(std::to_string(step->number) + " " + step->plan.name);
  }
  return names;
}

TEST(StepSources, GiveThePlannedStepsOfEachPolicy) {
  const Scenario scenario = two_steps();
  const auto source = planned_source(scenario, open_inputs(scenario));
  EXPECT_THAT(source->policies(), ElementsAre("dedup", "megatron"));
  EXPECT_EQ(source->cluster().gpu_count(), 2);
  EXPECT_EQ(source->origin().hidden, 16);
  const auto dedup = plans_of(*source, 0);
  EXPECT_THAT(dedup, ElementsAre(testing::StartsWith("2 "), testing::StartsWith("3 ")));
  EXPECT_NE(plans_of(*source, 1), dedup);
  EXPECT_EQ(plans_of(*source, 0), dedup) << "from the first step again";
}

TEST(StepSources, GiveTheSavedStepsOfEachPolicy) {
  const Scenario scenario = two_steps();
  const Inputs inputs = open_inputs(scenario);
  auto policies = plan_all(scenario, inputs, inputs.clusters[0]);
  policies.push_back({"elsewhere", "needs attention", {}});
  const std::string path = testing::TempDir() + "measured.moesim";
  write_file(path, pack_steps(origin_of(scenario, inputs, inputs.clusters[0], "1.2.3"),
                              inputs.clusters[0].topology, policies));
  const auto saved = saved_source(path);
  std::remove(path.c_str());
  EXPECT_THAT(saved->policies(), ElementsAre("dedup", "megatron", "elsewhere"));
  EXPECT_EQ(saved->origin().moesim, "1.2.3");
  EXPECT_EQ(saved->cluster().gpu_count(), 2);
  const auto planned = planned_source(scenario, open_inputs(scenario));
  for (const std::size_t policy : {1U, 0U, 1U}) {
    EXPECT_EQ(plans_of(*saved, policy), plans_of(*planned, policy)) << policy;
  }
  EXPECT_THROW(saved->begin(2), Unsuitable);

  const Numerics numerics = local_numerics(*saved, 0, {});
  EXPECT_EQ(numerics.policy, "dedup");
  EXPECT_EQ(numerics.steps, 2);
  // 2 steps of 2 ranks x 4 tokens x 16 columns
  EXPECT_EQ(numerics.compared.outputs, 2 * 2 * 4 * 16);
  EXPECT_EQ(numerics.compared.input_gradients, 2 * 2 * 4 * 16);
  EXPECT_GT(numerics.compared.weight_gradients, 0);
  EXPECT_EQ(numerics.compared.wrong(), 0);
  EXPECT_THAT(local_numerics(*saved, 2, {}).unsuitable, HasSubstr("needs attention"));
  EXPECT_EQ(local_numerics(*saved, 0, {1}).compared.outputs, 2 * 2 * 1 * 16);
}

TEST(LocalNumerics, AreATable) {
  Numerics right, no;
  right.policy = "dedup";
  right.steps = 2;
  right.compared = {10, 1, 20, 2, 30, 3, 4, 0, 5};
  no.policy = "elsewhere";
  no.unsuitable = "too large";
  EXPECT_EQ(numerics_table({no, right}),
            "policy     steps  outputs  input gradients  weight gradients  #wrong\n"
            "elsewhere      -        -                -                 -       -\n"
            "dedup          2       10               20                30      15\n");
}

}  // namespace
}  // namespace moesim
