// SPDX-License-Identifier: Apache-2.0
// Bounds are of the step that the comparison runs.
#include "sim/run/bounds.h"

#include <gtest/gtest.h>

#include "sim/run/backends.h"
#include "sim/run/simulate.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

const std::vector<Override> two_nodes = {
    {"set", "topology.nodes=2", "n"}, {"steps", "5", "s"}, {"warmup", "5", "w"}};

/// As for each layer planned by itself.
BoundSums by_layers(const Scenario& scenario, const Inputs& inputs, const SystemSpec& system) {
  const ClusterInput& cluster = inputs.clusters[0];
  const auto port = make_backend(Fidelity::port, scenario.p2p_order, cluster);
  BoundSums sums;
  for (const int layer : inputs.layers) {
    PlannerOptions options = inputs.planner_options(scenario, cluster);
    options.layers = {layer};
    options.explicit_rows = true;
    Planner planner(system, cluster.topology, inputs.model, inputs.trace, options);
    const PlannedStep planned = planner.plan(cluster.batches.batches[0], cluster.first_step);
    sums.phases.insert(planned.layers[0].dispatch->shape().size());
    sums.add(
        explain(PricedPlan(planned.plan, cluster.topology), cluster.gpus, {{"port", port.get()}}),
        cluster.topology, system.name);
  }
  return sums;
}

TEST(Bounds, AreThoseOfLayersPlannedAloneWhereLayersDecideAlone) {
  const Scenario scenario =
      scenario_of("[alltoall, hiermoe-hd, deepep-normal, eplb, llep]", two_nodes);
  const Inputs inputs = open_inputs(scenario);
  const auto found = simulate(scenario, inputs, {.workers = 2, .bounds = true}).bounds;
  ASSERT_EQ(found.size(), 5u);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const BoundSums expected = by_layers(scenario, inputs, inputs.systems[i]);
    EXPECT_EQ(found[i].policy, inputs.systems[i].name);
    EXPECT_EQ(found[i].sums.alone, expected.alone) << found[i].policy;
    EXPECT_EQ(found[i].sums.bound, expected.bound);
    EXPECT_EQ(found[i].sums.least_ratio, expected.least_ratio);
    EXPECT_EQ(found[i].sums.between_hosts, expected.between_hosts);
    EXPECT_EQ(found[i].sums.classes, expected.classes);
    EXPECT_GT(found[i].sums.least_between_hosts, Bytes(0));
    EXPECT_LE(found[i].sums.least_between_hosts, expected.between_hosts);
    EXPECT_EQ(found[i].sums.phases, expected.phases);
  }
}

// ExFlow, MoETuner and others place experts by what tokens choose in other layers, too.
TEST(Bounds, AreOfTheBytesThatTheComparisonCounts) {
  const Scenario scenario = scenario_of("[alltoall, exflow, moetuner, trt-llm]", two_nodes);
  const Inputs inputs = open_inputs(scenario);
  const auto [cases, bounds, signal] = simulate(scenario, inputs, {.workers = 2, .bounds = true});
  ASSERT_EQ(bounds.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_GT(bounds[i].sums.between_hosts.value, 0);
    EXPECT_EQ(bounds[i].sums.between_hosts, cases[i].metrics.total.traffic.other_host)
        << cases[i].name.policy;
    const DedupBound of_step{bounds[i].sums.dedup, cases[i].metrics.steps.at(0),
                             bounds[i].sums.least_between_hosts, bounds[i].sums.between_hosts};
    EXPECT_EQ(cases[i].metrics.dedup, of_step);
  }
}

TEST(Bounds, LeaveOutPoliciesThatCannotRun) {
  const Scenario scenario = scenario_of("[alltoall, lazarus]", {{"set", "topology.nodes=8", "n"},
                                                                {"fidelity", "analytic", "f"},
                                                                {"ep", "64", "e"},
                                                                {"repeat", "2", "r"},
                                                                {"steps", "0", "s"}});
  const Inputs inputs = open_inputs(scenario);
  const auto [cases, bounds, signal] = simulate(scenario, inputs, {.workers = 2, .bounds = true});
  EXPECT_EQ(cases.size(), 2u);
  ASSERT_EQ(bounds.size(), 1u);
  EXPECT_EQ(bounds[0].policy, "lazarus");
}

TEST(LayerWithRows, HasTheRowsOfAStepPlannedWithAllRows) {
  const Scenario scenario =
      scenario_of("[alltoall, dedup, hiermoe-hd, exflow, occult, llep]", two_nodes);
  const Inputs inputs = open_inputs(scenario);
  const ClusterInput& cluster = inputs.clusters[0];
  const Batch& batch = cluster.batches.batches[0];
  for (const SystemSpec& system : inputs.systems) {
    PlannerOptions options = inputs.planner_options(scenario, cluster);
    Planner bare(system, cluster.topology, inputs.model, inputs.trace, options);
    options.explicit_rows = true;
    Planner with_rows(system, cluster.topology, inputs.model, inputs.trace, options);
    const PlannedStep planned = bare.plan(batch, cluster.first_step);
    const PlannedStep all = with_rows.plan(batch, cluster.first_step);
    for (std::size_t l = 0; l < all.layers.size(); ++l) {
      const PlannedStep layer = bare.layer_with_rows(planned, l);
      ASSERT_EQ(layer.layers.size(), 1u);
      EXPECT_EQ(layer.layers[0].number, all.layers[l].number);
      EXPECT_EQ(layer.layers[0].rows, all.layers[l].rows) << system.name;
      EXPECT_EQ(layer.layers[0].chosen, all.layers[l].chosen) << system.name;
    }
  }
}

/// An iteration of one microbatch exchanges what a step of the same tokens does.
TEST(Bounds, OfAnIterationAreThoseOfItsFirstMicrobatch) {
  const std::vector<Override> both = {{"topology", "h100-rail", "t"},
                                      {"model", "tiny-moe", "m"},
                                      {"trace", "tiny-moe-train", "r"},
                                      {"policy", "[alltoall, dedup]", "p"},
                                      {"set", "topology.nodes=2", "n"}};
  std::vector<Override> step = both, iteration = both;
  // Two microbatches: the first counts.
  step.insert(step.end(),
              {{"tokens_per_rank", "256", "k"}, {"ep", "16", "e"}, {"steps", "0", "s"}});
  iteration.insert(iteration.end(), {{"parallel", "{ep: 16}", "g"},
                                     {"batch", "{global: 32, micro: 1, sequence: 256}", "b"},
                                     {"software", "ideal", "w"}});
  const auto bounds = [](const std::vector<Override>& flags) {
    const Scenario scenario = read_scenario("", flags);
    const Inputs inputs = open_inputs(scenario);
    std::vector<BoundSums> sums;
    for (const PolicyBounds& of :
         simulate(scenario, inputs, {.workers = 1, .bounds = true}).bounds) {
      sums.push_back(of.sums);
    }
    return sums;
  };
  const auto of_step = bounds(step), of_iteration = bounds(iteration);
  ASSERT_EQ(of_step.size(), 2u);
  ASSERT_EQ(of_iteration.size(), 2u);
  for (std::size_t p = 0; p < 2; ++p) {
    EXPECT_GT(of_step[p].between_hosts.value, 0);
    EXPECT_EQ(of_step[p].between_hosts, of_iteration[p].between_hosts);
    EXPECT_EQ(of_step[p].least_between_hosts, of_iteration[p].least_between_hosts);
    EXPECT_EQ(of_step[p].alone, of_iteration[p].alone);
    EXPECT_EQ(of_step[p].bound, of_iteration[p].bound);
  }
}

}  // namespace
}  // namespace moesim
