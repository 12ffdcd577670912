// SPDX-License-Identifier: Apache-2.0
// LAER-MoE by the obvious command, with nothing said of slots and groups: the published order, one
// table for policies of different grids, and a note where plans have no choice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/scenario/inputs.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const std::string obvious = R"(topology: laer-a100
model: mixtral-8x7b-e8k2
synth: {tokens: 524288, sequences: 64, layers: 2, steps: 3, skew: 1, drift: 0.05}
policy: [laer, fsep-flexmoe, fsep-fsdp-ep, megatron]
warmup: 1
)";

std::map<std::string, RunMetrics> metrics_of(const Scenario& scenario) {
  std::map<std::string, RunMetrics> result;
  for (CaseResult& c : simulate(scenario, open_inputs(scenario), {.workers = 2}).cases) {
    EXPECT_TRUE(c.ran()) << c.unsuitable;
    result[c.name.policy] = std::move(c.metrics);
  }
  return result;
}

TEST(Laer, TheObviousCommandHasThePublishedOrder) {
  auto of = metrics_of(parse_scenario(obvious, "", {}));
  const Seconds laer = of["laer"].mean_step();
  EXPECT_LT(laer, of["fsep-flexmoe"].mean_step());
  EXPECT_LT(of["fsep-flexmoe"].mean_step(), of["fsep-fsdp-ep"].mean_step());
  EXPECT_LT(laer, of["megatron"].mean_step());
  EXPECT_THAT(of["laer"].notes, Not(Contains(HasSubstr("slot"))));
  // What the released code is given by hand: two slots and one EP group.
  const auto said = metrics_of(parse_scenario(obvious, "",
                                              {{"ep", "32", "--ep 32"},
                                               {"policy", "[laer, fsep-fsdp-ep]", "--policy"},
                                               {"set", "policy.placement.slots=2", "--set"}}));
  EXPECT_EQ(said.at("laer").mean_step(), laer);
  EXPECT_EQ(said.at("fsep-fsdp-ep").mean_step(), of["fsep-fsdp-ep"].mean_step());
}

TEST(Laer, OneSlotLeavesNoChoiceAndANoteSaysSo) {
  auto of = metrics_of(parse_scenario(obvious, "",
                                      {{"set", "policy.placement.slots=1", "--set"},
                                       {"policy", "[laer, fsep-fsdp-ep]", "--policy"}}));
  EXPECT_NEAR(of["laer"].mean_step() / of["fsep-fsdp-ep"].mean_step(), 1, 0.01);
  EXPECT_THAT(of["laer"].notes, Contains(HasSubstr("no slot to spare")));
  EXPECT_THAT(of["fsep-fsdp-ep"].notes, Not(Contains(HasSubstr("slot"))));
}

TEST(Laer, HeadersAndResultsNameThePoliciesOfAnotherDegree) {
  const Scenario scenario = parse_scenario(obvious, "", {});
  const Inputs inputs = open_inputs(scenario);
  EXPECT_THAT(result_header(scenario, inputs, "0"),
              HasSubstr("#   ep 32: laer, fsep-flexmoe, fsep-fsdp-ep\n"));
  const std::string json = result_json(scenario, inputs, {}, "0");
  EXPECT_THAT(json, HasSubstr("\"ep_of\": {\n    \"laer\": 32,"));
}

TEST(Laer, AnIterationOfAPolicyWithItsOwnKeysIsThatOfAScenarioWithThem) {
  const std::string all = R"(topology: laer-a100
model: mixtral-8x7b-e8k2
synth: {tokens: 65536, sequences: 64, layers: 1, steps: 2}
batch: {global: 64, micro: 2, sequence: 1024}
parallel: {ep: 32}
zero: 3
set: [model.layers=2, model.moe_layers.count=2]
memory: ignore
)";
  const auto iteration = [&](const std::string& policy, const std::vector<Override>& flags) {
    const Scenario scenario = parse_scenario(all + policy, "", flags);
    auto cases = simulate(scenario, open_inputs(scenario), {}).cases;
    EXPECT_TRUE(cases.back().ran()) << cases.back().unsuitable;
    return cases.back().metrics.mean_step();
  };
  const Seconds own = iteration(
      "policy: [laer, {name: megatron, parallel: {tp: 4, etp: 1, ep: 8}, batch: {micro: 1}, zero: "
      "1, recompute: full}]\n",
      {});
  const Seconds scenario = iteration("policy: megatron\n", {{"parallel.tp", "4", "t"},
                                                            {"parallel.etp", "1", "e"},
                                                            {"parallel.ep", "8", "p"},
                                                            {"batch.micro", "1", "m"},
                                                            {"zero", "1", "z"},
                                                            {"recompute", "full", "r"}});
  EXPECT_EQ(own, scenario);
}

}  // namespace
}  // namespace moesim
