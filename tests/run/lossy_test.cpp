// SPDX-License-Identifier: Apache-2.0
// What compute something else than is stated say so, in steps and in iterations.
#include <gtest/gtest.h>

#include <map>

#include "sim/run/simulate.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using Losses = std::map<std::string, std::string>;  // of policies

Override set(const std::string& change) { return {"set", change, "s"}; }

Losses of_steps(const std::string& policies, std::vector<Override> more = {}) {
  more.push_back({"steps", "3", "s"});
  more.push_back(set("model.activations=bf16"));
  const Scenario scenario = scenario_of(policies, more);
  const Inputs inputs = open_inputs(scenario);
  Losses losses;
  for (const CaseResult& c : simulate(scenario, inputs, {}).cases) {
    EXPECT_TRUE(c.ran()) << c.unsuitable;
    losses[c.name.policy] = c.metrics.loss.text();
  }
  return losses;
}

TEST(Lossy, WhatDropsRoundsOrCompressesSaysSo) {
  const Losses losses =
      of_steps("[alltoall, deepspeed, schemoe, schemoe-optsche, hybridep, hybridep-exact, eplb]",
               {set("model.weights=bf16")});
  EXPECT_EQ(losses.at("alltoall"), "");
  EXPECT_EQ(losses.at("schemoe"), "");
  EXPECT_EQ(losses.at("hybridep-exact"), "");
  EXPECT_EQ(losses.at("eplb"), "") << "its dispatch sends BF16 rows where they are stated";
  EXPECT_EQ(losses.at("schemoe-optsche"), "8-bit rows");
  EXPECT_EQ(losses.at("hybridep"), "compresses 50x");
  const Losses alone =
      of_steps("hybridep", {set("model.weights=bf16"), set("policy.placement.levels=flat"),
                            set("policy.dispatch={kind: hybridep, levels: flat}"),
                            set("policy.placement.domains=1")});
  EXPECT_EQ(alone.at("hybridep"), "") << "it gathers no expert";
  EXPECT_TRUE(losses.at("deepspeed").starts_with("drops ")) << losses.at("deepspeed");
}

TEST(Lossy, ChoicesThatAreReplacedCount) {
  const Losses losses = of_steps("alltoall", {set("policy.routing=in-turn")});
  EXPECT_TRUE(losses.at("alltoall").starts_with("replaces ")) << losses.at("alltoall");
}

TEST(Lossy, RowsAreHeldAgainstTheStatedPrecision) {
  const std::string both = "[deepep-normal, deepep-low-latency]";
  const auto fp8 = [](const std::string& weights) {
    return std::vector{set("policy.dispatch.type=fp8"), set("model.weights=" + weights)};
  };
  const Losses plain = of_steps(both, {set("model.weights=bf16")});
  const Losses rounded = of_steps(both, fp8("bf16"));
  const Losses stated = of_steps(both, fp8("fp8"));
  for (const std::string policy : {"deepep-normal", "deepep-low-latency"}) {
    EXPECT_EQ(plain.at(policy), "");
    EXPECT_EQ(rounded.at(policy), "fp8 rows");
    EXPECT_EQ(stated.at(policy), "");
  }
}

TEST(Lossy, IterationsStateTheirPrecision) {
  const auto losses = [](const std::string& precision, const std::string& type) {
    const Scenario scenario =
        read_scenario("", {{"topology", "h100-rail", "t"},
                           {"model", "olmoe", "m"},
                           {"trace", "traces/tiny-moe-train", "r"},
                           {"policy", "[deepep-normal, deepspeed]", "p"},
                           {"parallel.ep", "8", "e"},
                           {"batch.global", "8", "b"},
                           {"batch.sequence", "64", "b"},
                           {"precision", precision, "p"},
                           {"fidelity", "analytic", "f"},
                           set("topology.nodes=1"),
                           set("model.layers=2"),
                           set("model.moe_layers.count=2"),
                           set("model.experts=32"),
                           set("model.top_k=4"),
                           set("policy:deepep-normal.dispatch.type=" + type)});
    const Inputs inputs = open_inputs(scenario);
    Losses found;
    for (const CaseResult& c : simulate(scenario, inputs, {}).cases) {
      EXPECT_TRUE(c.ran()) << c.unsuitable;
      found[c.name.policy] = c.metrics.loss.text();
    }
    return found;
  };
  EXPECT_EQ(losses("bf16", "stated").at("deepep-normal"), "");
  EXPECT_EQ(losses("bf16", "fp8").at("deepep-normal"), "fp8 rows");
  const Losses fp8 = losses("fp8", "fp8");
  EXPECT_EQ(fp8.at("deepep-normal"), "");
  EXPECT_TRUE(fp8.at("deepspeed").starts_with("drops ")) << fp8.at("deepspeed");
}

}  // namespace
}  // namespace moesim
