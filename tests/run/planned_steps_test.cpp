// SPDX-License-Identifier: Apache-2.0
// Plans that are kept for clusters with other rates give what planning anew gives.
#include "sim/run/planned_steps.h"

#include <gtest/gtest.h>

#include "sim/run/runs_on.h"
#include "sim/run/simulate.h"
#include "sim/run/whatif.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

/// Two hosts, three steps.
Scenario on_two_hosts(const std::string& policy) {
  return scenario_of(policy, {{"set", "topology.nodes=2", "n"}});
}

struct PlannedOnce {
  explicit PlannedOnce(const Scenario& s, bool keeps = true)
      : scenario(s),
        inputs(open_inputs(scenario)),
        run(runs_on(scenario, inputs, 0).front()),
        steps(run, {.routing = run.routing}, keeps) {
    steps.plan_all();
  }
  Scenario scenario;
  Inputs inputs;
  PolicyRun run;
  PlannedSteps steps;
};

TEST(PlannedSteps, HoldForOtherRatesUnlessPlannersLookAtThem) {
  for (const char* policy : {"alltoall", "dedup", "eplb", "llep"}) {
    const PlannedOnce planned(on_two_hosts(policy));
    EXPECT_TRUE(planned.steps.all_kept()) << policy;
    EXPECT_FALSE(planned.steps.looks().any()) << policy;
  }
  for (const char* policy : {"hiermoe-hd", "hybridep-exact", "tutel", "fastermoe"}) {
    const PlannedOnce planned(on_two_hosts(policy));
    EXPECT_TRUE(planned.steps.looks().any()) << policy;
  }
}

TEST(PlannedSteps, TakeAsLongOnAChangedClusterAsThosePlannedOnIt) {
  for (const char* policy : {"alltoall", "llep", "eplb"}) {
    PlannedOnce planned(on_two_hosts(policy));
    for (const char* change : {"nic.bandwidth=0.5", "nic.latency=3", "nvlink.bandwidth=0.3",
                               "exchange.overhead=2", "gpu.flops=0.5", "network.bandwidth=2"}) {
      const WhatIf what{{change}};
      const Inputs inputs = changed_inputs(planned.scenario, planned.inputs, what);
      const auto anew = simulate(planned.scenario, inputs, {.workers = 0}).cases[0].metrics;
      const ClusterInput& cluster = inputs.clusters[0];
      planned.steps.price_on(cluster.topology);
      EXPECT_EQ(mean_time(planned.steps, cluster, {}), anew.mean_step()) << policy << " " << change;
    }
  }
}

TEST(PlannedSteps, KeepLoadsUnlessSomeLinkYieldsLessIfItIsCrowded) {
  const auto keeps = [](const std::string& topology) {
    PlannedOnce planned(
        scenario_of("alltoall", {{"topology", topology, "t"}, {"set", "topology.nodes=2", "n"}}));
    planned.steps.price_on(planned.inputs.clusters[0].topology);
    return planned.steps.loads(0) != nullptr;
  };
  EXPECT_TRUE(keeps("h100-rail"));
  EXPECT_FALSE(keeps("hiermoe-a6000"));
}

TEST(PlannedSteps, AreNotKeptUnasked) {
  PlannedOnce planned(on_two_hosts("alltoall"), false);
  ASSERT_EQ(planned.steps.planner().count(), 3);
  for (const int i : {0, 1, 2}) {
    planned.steps.step(i);
    EXPECT_FALSE(planned.steps.all_kept()) << i;
  }
  planned.steps.price_on(planned.inputs.clusters[0].topology);
  EXPECT_EQ(planned.steps.loads(0), nullptr);
}

TEST(PlannedSteps, AreNotKeptOfWholeIterations) {
  const Scenario scenario = scenario_of("alltoall", {{"parallel.ep", "8", "e"},
                                                     {"batch.global", "16", "b"},
                                                     {"batch.sequence", "64", "s"},
                                                     {"layers", "null", "l"},
                                                     {"steps", "0", "t"}});
  const PlannedOnce planned(scenario);
  EXPECT_FALSE(planned.steps.all_kept());
}

}  // namespace
}  // namespace moesim
