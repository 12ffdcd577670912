// SPDX-License-Identifier: Apache-2.0
// Metrics of hand-made timelines: what overlaps counts once, parameters are not tokens.
#include "sim/report/metrics.h"

#include <gtest/gtest.h>

#include "sim/report/iteration_layers.h"
#include "sim/topology/reader.h"
#include "tests/report/iteration_case.h"

namespace moesim {
namespace {

const Topology& two_gpus() {
  static const TopologyFile file =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml",
                    {parse_override("nodes=1"), parse_override("node.gpus=2"),
                     parse_override("node.nics.count=2")});
  return file.topology;
}

Op kernel(int gpu) {
  return {"fc1",
          OpKey{.kind = OpKind::fc1, .pass = Pass::forward, .stage = Stage::experts, .layer = 0},
          Stream::compute,
          {GpuId(gpu)},
          {},
          Kernels(GroupedGemm{{gpu == 0 ? 6 : 2}, 8, 8, DataType::bf16})};
}

Op exchange(Stream stream, Stage stage, std::int64_t bytes) {
  const std::int64_t dense[] = {0, bytes, 0, 0};
  return {"x",    OpKey{.kind = OpKind::other, .pass = Pass::forward, .stage = stage, .layer = 0},
          stream, {GpuId(0), GpuId(1)},
          {},     Exchange{ByteMatrix::from_dense(2, dense), {}, false}};
}

/// Both GPUs compute from 2 to 6; tokens travel from 0 to 3, parameters from 1 to 8.
class MetricsTest : public ::testing::Test {
 protected:
  MetricsTest() {
    plan_.gpus = 2;
    const auto add = [&](Op op, std::vector<Interval> when) {
      plan_.add(std::move(op));
      timeline_.ops.add_row(when);
    };
    add(kernel(0), {{Seconds(2), Seconds(6)}});
    add(kernel(1), {{Seconds(2), Seconds(6)}});
    add(exchange(Stream::ep, Stage::dispatch, 100),
        {{Seconds(0), Seconds(3)}, {Seconds(0), Seconds(3)}});
    add(exchange(Stream::param, Stage::migrate, 40),
        {{Seconds(1), Seconds(8)}, {Seconds(1), Seconds(8)}});
    timeline_.makespan = Seconds(8);
    add_step(run_, PricedPlan(plan_, topology_), timeline_);
  }
  const Topology& topology_ = two_gpus();
  Plan plan_;
  Timeline timeline_;
  RunMetrics run_;
};

TEST_F(MetricsTest, WhatOverlapsIsExposedOnce) {
  EXPECT_DOUBLE_EQ(run_.total.communication.value, 3);
  EXPECT_DOUBLE_EQ(run_.total.parameters.value, 7);
  EXPECT_DOUBLE_EQ(run_.total.exposed.value, 4);  // 0 to 2 and 6 to 8
}

TEST_F(MetricsTest, GradientsArePartOfTheParameters) {
  plan_.add(exchange(Stream::dp, Stage::reduce, 40));
  timeline_.ops.add_row({{Seconds(6), Seconds(8)}, {Seconds(6), Seconds(8)}});
  RunMetrics run;
  add_step(run, PricedPlan(plan_, topology_), timeline_);
  EXPECT_DOUBLE_EQ(run.total.parameters.value, 9);
  EXPECT_DOUBLE_EQ(run.total.gradients.value, 2);
}

TEST_F(MetricsTest, ParametersAreCountedApartFromTokens) {
  EXPECT_EQ(run_.total.traffic.same_host, Bytes(100));
  EXPECT_EQ(run_.total.parameter_traffic.same_host, Bytes(40));
  EXPECT_EQ(run_.total.migrated, Bytes(40));
}

TEST_F(MetricsTest, LayersThatExchangeBesideEachOtherAreExposedOnce) {
  Plan plan{"plan", 2, {}};
  Timeline timeline;
  for (const int layer : {0, 1}) {
    Op op = exchange(Stream::ep, Stage::dispatch, 100);
    op.key.layer = layer;
    plan.add(std::move(op));
    const Interval when{Seconds(layer), Seconds(layer + 3)};
    timeline.ops.add_row({when, when});
  }
  timeline.makespan = Seconds(4);
  RunMetrics run;
  for (int step = 0; step < 2; ++step) add_step(run, PricedPlan(plan, topology_), timeline);
  EXPECT_DOUBLE_EQ(run.total.exposed.value, 8);  // 4 of each step
  EXPECT_DOUBLE_EQ(run.layers.at(0).exposed.value, 6);
}

/// Layer 0 on GPUs 0 and 1, layer 1 on the next two, which are another stage; more have none.
TEST_F(MetricsTest, LayersOfStagesAreThoseOfTheirGpus) {
  Plan plan{"plan", 8, {}};
  Timeline timeline;
  for (const int layer : {0, 1}) {
    const double start = 10 * layer;
    for (const int gpu : {0, 1}) {  // 6 and 2 rows
      Op op = kernel(gpu);
      op.key.layer = layer;
      op.group = {GpuId(2 * layer + gpu)};
      plan.add(std::move(op));
      timeline.ops.add_row({{Seconds(start + 2), Seconds(start + 6)}});
    }
    Op op = exchange(Stream::ep, Stage::dispatch, 100);
    op.key.layer = layer;
    op.group = {GpuId(2 * layer), GpuId(2 * layer + 1)};
    plan.add(std::move(op));
    const Interval when{Seconds(start), Seconds(start + 3)};
    timeline.ops.add_row({when, when});
  }
  timeline.makespan = Seconds(16);
  const PricedPlan priced(plan, test::eight_gpus());
  const auto layers = iteration_layers(priced, timeline, {0, 0, 1, 1, 2, 2, 2, 2});
  ASSERT_EQ(layers.size(), 2U);
  for (const auto& [number, layer] : layers) {
    EXPECT_DOUBLE_EQ(layer.compute.value, 4) << number;
    EXPECT_DOUBLE_EQ(layer.communication.value, 3);
    EXPECT_DOUBLE_EQ(layer.exposed.value, 2);
    EXPECT_DOUBLE_EQ(layer.forward.value, 6);
    EXPECT_DOUBLE_EQ(layer.load_max_over_mean.value(), 1.5);
    EXPECT_EQ(layer.traffic.same_host, Bytes(100));
  }
}

/// Exchanges of one matrix are looked at once; they count as often as they are there, each for its
/// own layer.
TEST_F(MetricsTest, RepeatedExchangesCountAsOftenAsTheyAreThere) {
  Plan shared{"plan", 2, {}}, apart{"plan", 2, {}};
  Timeline timeline;
  const Op once = exchange(Stream::ep, Stage::dispatch, 100);
  for (int i = 0; i < 5; ++i) {
    Op again = once, fresh = exchange(Stream::ep, Stage::dispatch, 100);
    again.key.layer = fresh.key.layer = i % 2;
    shared.add(again);
    apart.add(fresh);
    const Interval when{Seconds(i), Seconds(i + 1)};
    timeline.ops.add_row({when, when});
  }
  timeline.makespan = Seconds(5);
  RunMetrics of_shared, of_apart;
  add_step(of_shared, PricedPlan(shared, topology_), timeline);
  add_step(of_apart, PricedPlan(apart, topology_), timeline);
  EXPECT_EQ(of_shared.layers.at(0).traffic.same_host, Bytes(300));
  EXPECT_EQ(of_shared.layers.at(1).traffic.same_host, Bytes(200));
  EXPECT_DOUBLE_EQ(of_shared.layers.at(0).communication.value, 3);
  EXPECT_DOUBLE_EQ(of_shared.layers.at(1).communication.value, 2);
  EXPECT_EQ(of_shared.layers, of_apart.layers);
  EXPECT_EQ(of_shared.total, of_apart.total);
}

/// A GPU is in an exchange for its minimum time: of the first one until 5, which the second one,
/// there until 4, hides behind.
TEST_F(MetricsTest, MinimumTimesAreTimeInTheirExchange) {
  Plan plan{"plan", 2, {}};
  Timeline timeline;
  const auto add = [&](Op op, std::vector<Interval> when) {
    plan.add(std::move(op));
    timeline.ops.add_row(when);
  };
  for (const double start : {0, 2}) {
    for (const int gpu : {0, 1}) {
      add({"minimum",
           OpKey{.kind = OpKind::minimum_time,
                 .pass = Pass::forward,
                 .stage = Stage::dispatch,
                 .layer = 0},
           Stream::copy,
           {GpuId(gpu)},
           {},
           Kernels(HostWork{5})},
          {{Seconds(start), Seconds(start == 0 ? 5 : 3)}});
    }
    add(exchange(Stream::ep, Stage::dispatch, 100),
        {{Seconds(start), Seconds(start + 2)}, {Seconds(start), Seconds(start + 2)}});
  }
  timeline.makespan = Seconds(5);
  RunMetrics run;
  add_step(run, PricedPlan(plan, topology_), timeline);
  EXPECT_DOUBLE_EQ(run.total.communication.value, 5);
  EXPECT_DOUBLE_EQ(run.total.exposed.value, 5);
  EXPECT_DOUBLE_EQ(run.layers.at(0).forward.value, 5);
  EXPECT_DOUBLE_EQ(run.breakdown.tokens.value, 5);
  EXPECT_DOUBLE_EQ(run.breakdown.idle.value, 0);
}

/// Not the imbalance of the sums over the steps, which would be 12 over 10: the same figure for a
/// layer and for the run.
TEST_F(MetricsTest, ImbalanceIsTheMeanOverStepsOfALayerAndOfTheRun) {
  EXPECT_DOUBLE_EQ(run_.total.load_max_over_mean.value(), 1.5);
  plan_.ops[1].work = plan_.ops[0].work;
  add_step(run_, PricedPlan(plan_, topology_), timeline_);
  EXPECT_DOUBLE_EQ(run_.total.load_max_over_mean.value(), 1.25);
  EXPECT_DOUBLE_EQ(run_.layers.at(0).load_max_over_mean.value(), 1.25);
}

TEST(LayerMetrics, AddUp) {
  LayerMetrics one;
  double next = 1;
  const std::vector<Seconds LayerMetrics::*> times = {
      &LayerMetrics::forward,       &LayerMetrics::backward,   &LayerMetrics::compute,
      &LayerMetrics::communication, &LayerMetrics::parameters, &LayerMetrics::gradients,
      &LayerMetrics::exposed};
  for (const auto time : times) one.*time = Seconds(next++);
  one.link_bytes = {5, 6};
  one.traffic.other_host = Bytes(7);
  one.parameter_traffic.same_host = Bytes(8);
  one.migrated = Bytes(9);
  LayerMetrics sum = one;
  sum.add(one);
  for (const auto time : times) EXPECT_EQ(sum.*time, one.*time * 2.0);
  EXPECT_EQ(sum.link_bytes, (std::vector<std::int64_t>{10, 12}));
  EXPECT_EQ(sum.traffic.other_host, Bytes(14));
  EXPECT_EQ(sum.parameter_traffic.same_host, Bytes(16));
  EXPECT_EQ(sum.migrated, Bytes(18));
}

}  // namespace
}  // namespace moesim
