// SPDX-License-Identifier: Apache-2.0
// HierMoE, HybridEP and Occult by the obvious command, a cluster, a model, policies that were
// published together and drawn routing: the published order.
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/run/simulate.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

/// The policies of a comparison, fastest first.
std::vector<std::string> fastest_first(const std::string& text) {
  const Scenario scenario = parse_scenario(text, "", {});
  std::vector<CaseResult> cases = simulate(scenario, open_inputs(scenario), {.workers = 2}).cases;
  std::ranges::sort(cases, {}, [](const CaseResult& c) { return c.metrics.mean_step().value; });
  std::vector<std::string> names;
  for (const CaseResult& c : cases) {
    EXPECT_TRUE(c.ran()) << c.unsuitable;
    names.push_back(c.name.policy);
  }
  return names;
}

TEST(ObviousCommand, OfHierMoe) {
  EXPECT_EQ(fastest_first(R"(topology: hiermoe-a6000
model: qwen3-30b-a3b-32l
synth: {skew: 0.5, steps: 12, layers: 2}
layers: recorded
policy: [megatron, hd2-smartmoe, hiermoe-hd2, hiermoe-hd, hiermoe]
)"),
            (std::vector<std::string>{"hiermoe", "hiermoe-hd", "hiermoe-hd2", "hd2-smartmoe",
                                      "megatron"}));
}

TEST(ObviousCommand, OfHybridEp) {
  for (const char* cluster : {"hybridep-m", "hybridep-l"}) {
    const auto order = fastest_first(std::string("topology: ") + cluster + R"(
model: hybridep-mistral-small
synth: {steps: 1}
policy: [tutel, fastermoe, smartmoe, hybridep-exact, hybridep]
)");
    EXPECT_EQ(order.front(), "hybridep") << cluster;
    EXPECT_EQ(order.at(1), "hybridep-exact") << cluster;
    EXPECT_EQ(order.back(), "tutel") << cluster;
  }
}

TEST(ObviousCommand, OfOccult) {
  EXPECT_EQ(
      fastest_first(R"(topology: occult-a6000
model: olmoe
synth: {affinity: 0.4, steps: 8, layers: 2}
layers: recorded
policy: [tutel-linear, megablocks, dedup, occult, occult-pruned]
)"),
      (std::vector<std::string>{"occult-pruned", "occult", "dedup", "megablocks", "tutel-linear"}));
}

}  // namespace
}  // namespace moesim
