// SPDX-License-Identifier: Apache-2.0
// Figures of reports from parts that are small enough to add up by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/report/bounds_table.h"
#include "sim/report/elasticity.h"
#include "sim/report/iteration_metrics.h"
#include "sim/report/lower_bound.h"
#include "sim/report/names.h"
#include "sim/report/op_times.h"
#include "sim/report/path_report.h"
#include "sim/report/whatif_table.h"
#include "tests/report/iteration_case.h"
#include "tests/report/table_rows.h"
#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(FiguresByHand, TimesOfOpsAreMeansOverGpus) {
  const test::TwoHostsStep step;
  const OpTimes times = op_times(step.plan, step.timeline);
  EXPECT_DOUBLE_EQ(times.kinds.at({"fc1", Stage::experts, Stream::compute}).value, 75);
  EXPECT_DOUBLE_EQ(times.kinds.at({"dispatch", Stage::dispatch, Stream::ep}).value, 200);
  EXPECT_DOUBLE_EQ(times.waiting.value, 25);  // 50 on one of two
  OpTimes twice;
  twice.add(times, 2);
  EXPECT_DOUBLE_EQ(twice.kinds.at({"dispatch", Stage::dispatch, Stream::ep}).value, 400);
  EXPECT_DOUBLE_EQ(twice.waiting.value, 50);
}

TEST(FiguresByHand, PartsOfAnIterationAreThoseOfTheMeanGpu) {
  const test::TwoHostsStep step;
  const IterationTimes times = iteration_times(step.plan, step.timeline);
  EXPECT_DOUBLE_EQ(times.iteration.value, 1000);
  EXPECT_DOUBLE_EQ(times.of(IterationPart::experts).value, 75);
  EXPECT_DOUBLE_EQ(times.of(IterationPart::tokens).value, 200);
  constexpr double rest = 700;  // of each GPU: it waits for nobody in the only stage
  EXPECT_DOUBLE_EQ(times.of(IterationPart::waiting).value, 25 + rest);
  const IterationTimes first = iteration_times(step.plan, step.timeline, false, {GpuId(0)});
  EXPECT_DOUBLE_EQ(first.of(IterationPart::experts).value, 50);
  EXPECT_DOUBLE_EQ(first.of(IterationPart::waiting).value, 50 + rest);
}

TEST(FiguresByHand, TimesAddUpPartByPart) {
  const test::TwoHostsStep step;
  const IterationTimes gpu = iteration_times_by_gpu(step.plan, step.timeline, false).at(0);
  EXPECT_EQ(gpu.iteration, Seconds(1000));
  EXPECT_EQ(gpu.busiest, Seconds(300));  // of a kernel, and of an exchange from then on
  IterationTimes sum;
  sum.add(gpu, 2);
  IterationTimes other;
  other.iteration = Seconds(1), other.slowest_compute = Seconds(2), other.overlapped = Seconds(3);
  sum.add(other, 4);
  EXPECT_EQ(sum.iteration, Seconds(2004));
  EXPECT_EQ(sum.of(IterationPart::experts), Seconds(100));
  EXPECT_EQ(sum.slowest_compute, Seconds(108));
  EXPECT_EQ(sum.overlapped, Seconds(12));
  EXPECT_EQ(sum.busiest, Seconds(600));
}

TEST(FiguresByHand, HostsHoldOpsFromWhenTheyCouldStart) {
  Plan plan{"plan", 1, {}};
  Timeline timeline;
  OpId before(-1);
  for (const auto& [start, end] : {std::pair(2, 4), {5, 9}}) {
    const auto after = before.value < 0 ? std::vector<OpId>() : std::vector{before};
    before = plan.add({"fc1",
                       OpKey{.kind = OpKind::fc1, .stage = Stage::experts, .layer = 0},
                       Stream::compute,
                       {GpuId(0)},
                       after,
                       Kernels(MemoryBound{Bytes(1), Bytes(1)})});
    timeline.ops.add_row({{Seconds(start), Seconds(end)}});
  }
  timeline.makespan = Seconds(10);
  const IterationTimes times = iteration_times(plan, timeline, true);
  EXPECT_EQ(times.of(IterationPart::host), Seconds(3));  // 2 before the first, 1 between them
  EXPECT_EQ(times.of(IterationPart::waiting), Seconds(1));
  EXPECT_EQ(iteration_times(plan, timeline).of(IterationPart::waiting), Seconds(4));
  EXPECT_EQ(times.of(IterationPart::bubble), Seconds(0)) << "there is one stage";
}

TEST(FiguresByHand, WhatOverlapsIsTheMeanOfTheGpus) {
  Plan plan{"plan", 2, {}};
  Timeline timeline;
  plan.add({"fc1",
            OpKey{.kind = OpKind::fc1, .stage = Stage::experts, .layer = 0},
            Stream::compute,
            {GpuId(0)},
            {},
            Kernels(MemoryBound{Bytes(1), Bytes(1)})});
  timeline.ops.add_row({{Seconds(0), Seconds(4)}});
  const std::int64_t dense[] = {0, 1, 0, 0};
  plan.add({"x",
            OpKey{.kind = OpKind::other, .stage = Stage::dispatch, .layer = 0},
            Stream::ep,
            {GpuId(0), GpuId(1)},
            {},
            Exchange{ByteMatrix::from_dense(2, dense), {}, false}});
  timeline.ops.add_row({{Seconds(2), Seconds(6)}, {Seconds(2), Seconds(6)}});
  timeline.makespan = Seconds(6);
  EXPECT_DOUBLE_EQ(iteration_times(plan, timeline).overlapped.value, 1);  // 2 on one of two
  EXPECT_DOUBLE_EQ(iteration_times(plan, timeline, false, {GpuId(0)}).overlapped.value, 2);
}

TEST(FiguresByHand, LoadsOfExpertsAreMeansOverLayers) {
  Plan plan{"plan", 2, {}};
  plan.add({"gate", OpKey{}, Stream::compute, {GpuId(0)}, {}, Kernels(HostWork{7})});
  for (const std::int64_t rows :
       {1, 3, 0}) {  // 1 and 3 on GPU 0, 1 on GPU 1: 1 and 1.5 times the mean; then none
    const std::int64_t other = rows == 0 ? 0 : 1;
    std::vector<Kernel> each = {GroupedGemm{{rows, 0}, 8, 8}, GroupedGemm{{0, other}, 8, 8}};
    plan.add({"fc1",
              OpKey{.kind = OpKind::fc1, .stage = Stage::experts, .layer = static_cast<int>(rows)},
              Stream::compute,
              {GpuId(0), GpuId(1)},
              {},
              Kernels(std::move(each))});
  }
  EXPECT_DOUBLE_EQ(expert_load_max_over_mean(plan), 1.25);
  IterationFigures figures;
  figures.add({}, 1);
  figures.add({}, 2);
  figures.add({}, 6);
  EXPECT_DOUBLE_EQ(figures.load_max_over_mean, 3);
}

TEST(FiguresByHand, TrafficCountsAsOftenAsItIsThere) {
  Traffic sum{Bytes(1), Bytes(2), Bytes(3), {4}};
  sum.add({Bytes(10), Bytes(20), Bytes(30), {40, 50}}, 3);
  EXPECT_EQ(sum, (Traffic{Bytes(31), Bytes(62), Bytes(93), {124, 150}}));
}

TEST(FiguresByHand, LinksInsideAHostNameItOnce) {
  EXPECT_EQ(link_name(test::two_hosts(), LinkId(0)), "node0.gpu0 -> socket0");
  const TopologyFile apart = parse_topology(
      "vertices:\n  - {name: n0.g, kind: gpu, host: a, gpu: x}\n"
      "  - {name: n1.g, kind: gpu, host: b, gpu: x}\n"
      "links:\n  - {from: n0.g, to: n1.g, class: c, bandwidth: 1 GB/s, latency: 1 us}\n",
      "t");
  EXPECT_EQ(link_name(apart.topology, LinkId(0)), "n0.g -> n1.g");
}

TEST(FiguresByHand, ResourcesWithoutEffectAreNamedBelow) {
  const std::string text = elasticity_table({{"nic.bandwidth", 1.1, Seconds(2), Seconds(2)},
                                             {"gpu.flops", 1.1, Seconds(2), Seconds(1.5)}})
                               .text();
  EXPECT_THAT(text, testing::ContainsRegex("gpu.flops +\\+10.* -25.00 %"));
  EXPECT_THAT(text, HasSubstr("# without effect: nic.bandwidth\n"));
}

TEST(FiguresByHand, CasesThatDidNotRunAreSaidBelowTheTable) {
  const auto side = [](double seconds, std::int64_t tokens) {
    return WhatIfSide{.time = Seconds(seconds), .tokens = tokens, .gpus = 8, .path = {}};
  };
  WhatIfCase ran{{"a", "x", "", "port"}, side(2, 100), side(4, 50)};
  WhatIfCase lost{{"a", "y", "", "port"}, side(2, 100), side(2, 100)};
  lost.after.unsuitable = "too few GPUs";
  const std::string text = whatif_table({ran, lost}).text();
  EXPECT_THAT(text, testing::ContainsRegex("policy +before +after +change +tokens/s"));
  EXPECT_THAT(text, testing::ContainsRegex("x +2 s +4 s +\\+100.0 % +-75.0 %"));
  EXPECT_THAT(text, HasSubstr("# y on a was not run after the change: too few GPUs\n"));
  EXPECT_THAT(text, Not(HasSubstr("not run before")));
  const nlohmann::ordered_json json = whatif_json({ran, lost});
  EXPECT_EQ(json[0]["change"], 1);
  EXPECT_EQ(json[0]["after"]["tokens"], 50);
  EXPECT_EQ(json[1]["after"]["unsuitable"], "too few GPUs");
  EXPECT_FALSE(json[1].contains("change"));
}

TEST(FiguresByHand, BoundsAddUpOverMovements) {
  const auto movement = [](double overhead, double least, double bytes, double time) {
    BoundReport report{};
    report.overhead = Seconds(overhead);
    report.least.time = Seconds(least);
    report.least.bytes = Bytes(static_cast<std::int64_t>(bytes));
    report.between_hosts = Bytes(7);
    report.achieved = {{"flow", Seconds(time)}};
    return report;
  };
  Explanation layer;
  layer.bounds = {movement(1, 2, 10, 6), movement(0, 4, 10, 6), movement(0, 4, 0, 5)};
  BoundSums sums;
  sums.add(layer, test::two_hosts(), "p");
  EXPECT_DOUBLE_EQ(sums.alone.value, 17);
  EXPECT_DOUBLE_EQ(sums.bound.value, 11);
  EXPECT_DOUBLE_EQ(sums.least_ratio, 1.5);
  EXPECT_EQ(sums.between_hosts, Bytes(21));
  ASSERT_EQ(test::two_hosts().classes().size(), 2U);
  sums.classes = {1000, 2000};
  EXPECT_THAT(
      test::rows_of(Printout().add(bounds_table({{&test::two_hosts(), "p", sums}})), "bounds"),
      testing::ElementsAre("two|p||17 s|11 s|1.50x|21 B|0 B|0 ns|pcie 1 kB  nic 2 kB"));
  layer.bounds = {movement(0, 4, 10, 3)};
  EXPECT_THROW(sums.add(layer, test::two_hosts(), "p"), std::logic_error);
}

TEST(FiguresByHand, PathsArePerPlan) {
  PathSums path;
  path.length = Seconds(8);
  path.segments = 3;
  PathPart& part = path.kinds[static_cast<std::size_t>(PathKind::dispatch)];
  part.time = Seconds(8);
  part.by = {{"nic", Seconds(8)}};
  part.links = {{"a -> b", Seconds(6)}, {"b -> c", Seconds(2)}};
  path.layers = {{-1, Seconds(2)}, {0, Seconds(4)}, {4, Seconds(2)}};
  path.gpus = {Seconds(0), Seconds(1), Seconds(7)};
  path.waited = {Seconds(0), Seconds(0), Seconds(4)};
  EXPECT_EQ(path_json(path, 2).dump(),
            R"({"length_s":4.0,"segments":3,"kinds":[{"kind":"dispatch","s":4.0,)"
            R"("bound_by_s":{"nic":4.0},"busiest_link":{"link":"a -> b","s":3.0}}],)"
            R"("bound_by_s":{"nic":4.0},"layers":[{"layer":null,"s":1.0},{"layer":0,"s":2.0},)"
            R"({"layer":4,"s":1.0}],)"
            R"("gpus":[{"gpu":1,"s":0.5,"others_waited_s":0.0},)"
            R"({"gpu":2,"s":3.5,"others_waited_s":2.0}]})");
}

TEST(FiguresByHand, APortTakesItsBytesAtItsFullRate) {
  // 4 GB at 1 GB/s of a NIC, at 2 GB/s of a GPU's link.
  const auto time = [](Ports<std::int64_t> PortBytes::*ends, bool out) {
    PortBytes bytes;
    (out ? (bytes.*ends).out : (bytes.*ends).in) = {0, 4'000'000'000};
    return time_at_best_rate(bytes, test::two_hosts()).value;
  };
  for (const bool out : {false, true}) {
    EXPECT_DOUBLE_EQ(time(&PortBytes::hosts, out), 4);
    EXPECT_DOUBLE_EQ(time(&PortBytes::gpus, out), 2);
  }
}

TEST(FiguresByHand, TurnsAreThoseOfTheMeanStageAndOfEach) {
  CaseResult c = test::iteration_case("h100", "x", "", 1);
  EXPECT_FALSE(case_json(c).contains("turns_s"));
  TurnTimes first, last;
  first.of(TurnPart::forward) = Seconds(1), last.of(TurnPart::forward) = Seconds(3);
  c.metrics.iteration->stage_turns = {first, last};
  const nlohmann::ordered_json json = case_json(c);
  EXPECT_EQ(json["turns_s"]["1F"], 2);
  EXPECT_EQ(json["stage_turns_s"][0]["1F"], 1);
  EXPECT_EQ(json["stage_turns_s"][1]["1F"], 3);
}

TEST(FiguresByHand, OnlyADecodeHasATimePerOutputToken) {
  CaseResult c = test::iteration_case("h100", "x", "", 2, 400);
  ServingFigures& serving = c.metrics.iteration->serving.emplace();
  serving = {false, 5, 4, Bytes(6), 7};
  serving.activated.add({3, 8});
  serving.activated.add({4, 6});
  EXPECT_EQ(case_json(c)["serving"].dump(),
            R"({"phase":"prefill or mixed","sequences":5,"tokens_per_s":200.0,)"
            R"("kv_bytes_per_token":6,"free_kv_tokens":7,)"
            R"("activated_experts":{"mean":3.5,"max":7.0}})");
  serving.decodes = true;
  const nlohmann::ordered_json json = case_json(c)["serving"];
  EXPECT_EQ(json["phase"], "decode");
  EXPECT_EQ(json["tpot_s"], 0.5);  // 2 s for 4 tokens of a sequence
  EXPECT_EQ(json["tokens_per_s_per_user"], 2);
}

TEST(FiguresByHand, TimesOfLayersArePerStepAndBytesAreSums) {
  CaseResult c = test::iteration_case("h100", "x", "", 1);
  c.metrics.iteration.reset();
  c.metrics.steps = {Seconds(2), Seconds(4)};
  LayerMetrics& total = c.metrics.total;
  total.forward = Seconds(2), total.backward = Seconds(4), total.compute = Seconds(6);
  total.communication = Seconds(8), total.parameters = Seconds(10), total.gradients = Seconds(12);
  total.exposed = Seconds(14), total.migrated = Bytes(5);
  Breakdown& parts = c.metrics.breakdown;
  parts.compute = Seconds(2), parts.tokens = Seconds(4), parts.weights = Seconds(6);
  parts.gradients = Seconds(8), parts.waiting = Seconds(10), parts.idle = Seconds(12);
  parts.slowest_compute = Seconds(14), parts.overlapped = Seconds(16);
  c.metrics.planning = Seconds(18);
  const nlohmann::ordered_json all = case_json(c), &json = all["total"];
  EXPECT_EQ(all["breakdown"].dump(),
            R"({"compute_s":1.0,"tokens_s":2.0,"weights_s":3.0,"gradients_s":4.0,)"
            R"("waiting_s":5.0,"idle_s":6.0})");
  EXPECT_EQ(all["bound_by"], "idle");
  EXPECT_EQ(all["slowest_compute_s"], 7);
  EXPECT_EQ(all["overlapped_communication_s"], 8);
  EXPECT_EQ(all["planning_s"], 9);
  EXPECT_EQ(json["forward_s"], 1);
  EXPECT_EQ(json["backward_s"], 2);
  EXPECT_EQ(json["compute_s"], 3);
  EXPECT_EQ(json["communication_s"], 4);
  EXPECT_EQ(json["parameter_communication_s"], 5);
  EXPECT_EQ(json["gradient_communication_s"], 6);
  EXPECT_EQ(json["exposed_communication_s"], 7);
  EXPECT_EQ(json["migrated_bytes"], 5);
}

}  // namespace
}  // namespace moesim
