// SPDX-License-Identifier: Apache-2.0
// What is refused before it is planned: of shipped scenarios nothing that their plans accept.
#include "sim/planner/iteration/least_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/unsuitable.h"
#include "sim/scenario/policy_planner.h"
#include "sim/scenario/required_state.h"

namespace moesim {
namespace {

class ShippedIteration : public testing::TestWithParam<const char*> {};

TEST_P(ShippedIteration, TakesItsLeastStateAtLeast) {
  const Scenario scenario = read_scenario(std::string(MOESIM_ROOT "/scenarios/") + GetParam(),
                                          {{"batch.sequence", "64", "t"}});
  const Inputs inputs = open_inputs(scenario);
  const ClusterInput& cluster = inputs.clusters[0];
  for (const SystemSpec& system : inputs.systems) {
    PolicyPlanner steps(scenario, inputs, cluster, system,
                        {.routing = RoutingSource::balanced, .fewer_microbatches = true});
    const MemoryPeaks peaks = steps.plan(0).memory.peaks;
    const IterationShape& shape = steps.planner().shape();
    const auto least =
        least_state(spec_of(scenario), shape, inputs.model, system.placement.divides_experts);
    for (std::size_t stage = 0; stage < least.size(); ++stage) {
      Bytes most;
      for (const GpuId gpu : shape.grid.stage(static_cast<int>(stage))) {
        most = std::max(most, peaks[gpu.index()].use.total());
      }
      EXPECT_LE(least[stage].total(), most) << system.name << ", stage " << stage;
      EXPECT_GT(least[stage].total(), Bytes(0));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, ShippedIteration,
                         testing::Values("combined-1f1b.yaml", "dualpipe.yaml", "iteration.yaml",
                                         "iteration-hardware.yaml"));

/// Whether the state of a scenario is refused.
bool refuses(const std::string& more) {
  const Scenario scenario = parse_scenario(
      "topology: h200-rail\nmodel: qwen3-235b-a22b\npolicy: alltoall\nrouting: balanced\n" + more,
      "s.yaml", {});
  const Inputs inputs = open_inputs(scenario);
  try {
    require_state(view_of(scenario, inputs, 0), inputs.clusters[0]);
  } catch (const Unsuitable&) {
    return true;
  }
  return false;
}

TEST(RequiredState, IsThatOfTrainingWhoseMemoryIsChecked) {
  const std::string batch = "batch: {global: 128, sequence: 4096}\n",
                    nodes = "set: [topology.nodes=16]\n";
  const std::string one = "parallel: {ep: 1}\n" + nodes;
  EXPECT_TRUE(refuses(batch + one));
  EXPECT_FALSE(refuses(batch + one + "memory: ignore\n"));
  EXPECT_FALSE(refuses(batch + "parallel: {pp: 4, ep: 32}\n" + nodes));
  EXPECT_FALSE(refuses("serving: {batch: {context: 9, sequences: 4}}\nparallel: {ep: 1}\n"));
}

}  // namespace
}  // namespace moesim
