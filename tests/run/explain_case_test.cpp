// SPDX-License-Identifier: Apache-2.0
// An explanation is of the step that the comparison runs, for every shipped policy.
#include "sim/run/explain_case.h"

#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/base/unsuitable.h"
#include "sim/run/simulate.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using ByReach = std::array<Bytes, 3>;  // stay on their GPU, on their host, leave it

ByReach moved(const LayerMetrics& layer) {
  const Traffic &tokens = layer.traffic, &parameters = layer.parameter_traffic;
  return {tokens.same_gpu + parameters.same_gpu, tokens.same_host + parameters.same_host,
          tokens.other_host + parameters.other_host};
}

ByReach moved(const Explanation& explanation) {
  ByReach sum;
  for (const PhaseReport& phase : explanation.phases) {
    for (std::size_t reach = 0; reach < sum.size(); ++reach) sum[reach] += phase.reach.bytes[reach];
  }
  return sum;
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

// Where experts lie decides how many bytes stay and go. Several policies place the experts of a
// layer by what tokens choose in other layers.
TEST_P(EveryPolicy, IsExplainedAsItIsCompared) {
  const Scenario scenario = scenario_of(GetParam(), {{"set", "topology.nodes=2", "n"},
                                                     {"fidelity", "analytic", "f"},
                                                     {"steps", "5", "s"},
                                                     {"warmup", "5", "w"}});
  const Inputs inputs = open_inputs(scenario);
  try {
    const auto compared = simulate(scenario, inputs, {.workers = 1}).cases.at(0).metrics.layers;
    EXPECT_EQ(compared.size(), inputs.layers.size());
    for (const int layer : inputs.layers) {
      const ExplainedCase c = explain_case(scenario, inputs, layer, {Fidelity::analytic});
      EXPECT_EQ(moved(c.explanation), moved(compared.at(c.layer))) << "layer " << c.layer;
    }
  } catch (const Unsuitable& unsuitable) {
    GTEST_SKIP() << unsuitable.what();
  }
}

std::vector<std::string> policies_of_experts() {
  std::vector<std::string> names = data_names("models/system");
  std::erase_if(names, [](const std::string& name) {
    return read_system(data_file("models/system", name)).placement.for_dense_models;
  });
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, testing::ValuesIn(policies_of_experts()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moesim
