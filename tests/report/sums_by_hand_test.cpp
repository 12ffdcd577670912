// SPDX-License-Identifier: Apache-2.0
// Sums, means and ratios of reports against closed forms, and what documents leave out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/report/bounds_table.h"
#include "sim/report/case_report.h"
#include "sim/report/table.h"
#include "sim/report/whatif_table.h"
#include "tests/report/iteration_case.h"
#include "tests/report/table_rows.h"
#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

/// Times that all differ: so many seconds, and one more for every part.
IterationTimes times_from(double first) {
  IterationTimes times;
  double next = first;
  times.iteration = Seconds(next++);
  for (Seconds& part : times.parts) part = Seconds(next++);
  times.slowest_compute = Seconds(next++);
  times.overlapped = Seconds(next++);
  times.busiest = Seconds(next++);
  return times;
}

TEST(SumsByHand, FiguresOfIterationsAreMeansInEveryPart) {
  IterationFigures figures;
  for (const double first : {10, 40, 100}) figures.add(times_from(first), first);
  EXPECT_EQ(figures.count, 3);
  EXPECT_DOUBLE_EQ(figures.load_max_over_mean, 50);
  const IterationTimes mean = times_from(50);
  EXPECT_DOUBLE_EQ(figures.times.iteration.value, mean.iteration.value);
  for (std::size_t p = 0; p < mean.parts.size(); ++p) {
    EXPECT_DOUBLE_EQ(figures.times.parts[p].value, mean.parts[p].value) << p;
  }
  EXPECT_DOUBLE_EQ(figures.times.slowest_compute.value, mean.slowest_compute.value);
  EXPECT_DOUBLE_EQ(figures.times.overlapped.value, mean.overlapped.value);
  EXPECT_DOUBLE_EQ(figures.times.busiest.value, mean.busiest.value);
}

TEST(SumsByHand, StepsHaveAMeanAndASum) {
  RunMetrics run;
  EXPECT_EQ(run.mean_step(), Seconds(0));
  EXPECT_EQ(run.time_of_steps(), Seconds(0));
  run.steps = {Seconds(2), Seconds(3), Seconds(7)};
  EXPECT_DOUBLE_EQ(run.mean_step().value, 4);
  EXPECT_DOUBLE_EQ(run.time_of_steps().value, 12);
  run.iteration.emplace().times.iteration = Seconds(5);
  EXPECT_DOUBLE_EQ(run.mean_step().value, 5) << "of which it knows more";
}

// 4 GB on links of 2 GB/s, 3 GB on one of 1 GB/s, which needs longest: 3 s of 6.
TEST(SumsByHand, ThePeakLinkNeedsLongest) {
  const Topology& topology = test::two_hosts();
  std::vector<std::int64_t> bytes(topology.links().size(), 0);
  EXPECT_FALSE(peak_link(bytes, Seconds(6), topology));
  std::vector<std::size_t> slow, fast;
  for (std::size_t l = 0; l < bytes.size(); ++l) {
    (topology.links()[l].bandwidth == BytesPerSecond(1e9) ? slow : fast).push_back(l);
  }
  for (const std::size_t l : fast) bytes[l] = 4'000'000'000;
  for (const std::size_t l : {slow[1], slow[2]}) bytes[l] = 3'000'000'000;
  const auto peak = peak_link(bytes, Seconds(6), topology);
  ASSERT_TRUE(peak);
  EXPECT_EQ(peak->link.from, topology.links()[slow[1]].from) << "the first of equals";
  EXPECT_EQ(peak->link.to, topology.links()[slow[1]].to);
  EXPECT_EQ(peak->bytes, Bytes(3'000'000'000));
  EXPECT_DOUBLE_EQ(peak->utilization, 0.5);
}

TEST(SumsByHand, BoundsNameTheClassesThatCarryAnything) {
  const auto row = [](const std::vector<std::int64_t>& classes) {
    BoundSums sums;
    sums.alone = Seconds(3), sums.bound = Seconds(2);
    sums.phases = {2, 4};
    sums.classes = classes;
    return test::rows_of(Printout().add(bounds_table({{&test::two_hosts(), "p", sums}})), "bounds")
        .at(0);
  };
  EXPECT_EQ(row({1, 2000}), "two|p|2-4|3 s|2 s|-|0 B|0 B|0 ns|pcie 1 B  nic 2 kB");
  EXPECT_THAT(row({0, 2000}), ::testing::EndsWith("|0 ns|nic 2 kB"));
  EXPECT_THAT(row({2000, 0}), ::testing::EndsWith("|0 ns|pcie 2 kB"));
  EXPECT_THAT(row({0, 0}), ::testing::EndsWith("|0 ns|"));
}

TEST(SumsByHand, AMovementThatBeatsItsBoundIsNamed) {
  BoundReport report{};
  report.stage = Stage::combine;
  report.least.time = Seconds(4), report.least.bytes = Bytes(1);
  const auto said = [&](double seconds) -> std::string {
    report.achieved = {{"flow", Seconds(seconds)}};
    Explanation layer;
    layer.bounds = {report};
    try {
      BoundSums().add(layer, test::two_hosts(), "layer 3 of p");
    } catch (const std::logic_error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(said(3), "layer 3 of p: combine takes 3 s, less than the least possible 4 s");
  EXPECT_EQ(said(4), "");
}

TEST(SumsByHand, ComparisonsWithAChangeSayWhatTheyAreOf) {
  WhatIfCase c{{"cluster", "policy-a", "", "port"}, {}, {}};
  c.before = {.time = Seconds(2), .tokens = 10, .gpus = 4, .path = {}};
  c.after = {.time = Seconds(3), .tokens = 10, .gpus = 3, .path = {}};
  c.after.path.length = Seconds(6);
  const nlohmann::ordered_json json = whatif_json({c}).at(0);
  EXPECT_EQ(json["topology"], "cluster");
  EXPECT_EQ(json["policy"], "policy-a");
  EXPECT_EQ(json["fidelity"], "port");
  EXPECT_FALSE(json.contains("routing"));
  EXPECT_EQ(json["change"], 0.5);
  EXPECT_EQ(json["before"]["gpus"], 4);
  EXPECT_EQ(json["after"]["gpus"], 3);
  EXPECT_EQ(json["after"]["s"], 3);
  EXPECT_EQ(json["after"]["critical_path"]["length_s"], 3) << "6 s of two steps of 3 s";
  EXPECT_TRUE(whatif_table({}).parts().empty());
}

TEST(SumsByHand, TimeBoundsAddUpAndScale) {
  const TimeBounds one{Seconds(1), Seconds(2), Seconds(3), Seconds(4), Seconds(5)};
  TimeBounds sum = one * 10;
  sum.add(one);
  EXPECT_DOUBLE_EQ(sum.balance.value, 11);
  EXPECT_DOUBLE_EQ(sum.compute.value, 22);
  EXPECT_DOUBLE_EQ(sum.port.value, 33);
  EXPECT_DOUBLE_EQ(sum.no_communication.value, 44);
  EXPECT_DOUBLE_EQ(sum.no_bubble.value, 55);
}

/// A case of two steps of 3 s.
CaseResult two_steps_of_layers() {
  CaseResult c = test::iteration_case("cluster", "a", "", 1, 48);
  c.metrics.iteration.reset();
  c.metrics.steps = {Seconds(2), Seconds(4)};
  return c;
}

TEST(SumsByHand, LayersAreListedWithTheirOwnTimes) {
  CaseResult c = two_steps_of_layers();
  EXPECT_FALSE(case_json(c).contains("layers"));
  LayerMetrics& layer = c.metrics.layers[7];
  layer.forward = Seconds(2), layer.backward = Seconds(6);
  layer.link_bytes.assign(c.topology->links().size(), 0);
  EXPECT_TRUE(case_json(c)["layers"].at(0)["peak_link"].is_null());
  const Link& last = c.topology->links().back();
  layer.link_bytes.back() = static_cast<std::int64_t>(last.bandwidth.value);
  const nlohmann::ordered_json json = case_json(c)["layers"].at(0);
  EXPECT_EQ(json["layer"], 7);
  EXPECT_EQ(json["forward_s"], 1);
  EXPECT_EQ(json["backward_s"], 3);
  EXPECT_DOUBLE_EQ(json["peak_link"]["utilization"], 0.125) << "1 s of both passes' 8 s";
  EXPECT_EQ(json["peak_link"]["to"], c.topology->vertices()[last.to.index()].name);
}

TEST(SumsByHand, BoundsOfACaseArePerStep) {
  CaseResult c = two_steps_of_layers();
  EXPECT_FALSE(case_json(c).contains("least_s"));
  EXPECT_FALSE(case_json(c).contains("time_bounds"));
  c.metrics.least = Seconds(5);
  c.metrics.bounds = {Seconds(2), Seconds(4), Seconds(6), Seconds(8), Seconds(10)};
  const nlohmann::ordered_json json = case_json(c);
  EXPECT_EQ(json["least_s"], 2.5);
  EXPECT_EQ(json["time_bounds"].dump(),
            R"({"perfect_balance_s":1.0,"pure_compute_s":2.0,"pure_port_s":3.0,)"
            R"("no_communication_s":4.0,"no_bubble_s":5.0})");
  // The table has them as parts of the mean step.
  EXPECT_THAT(comparison_table({c}, true).text(),
              ::testing::ContainsRegex("33.3 % +66.7 % +100.0 % +133.3 % +166.7 %"));
}

TEST(SumsByHand, IntervalsSayWhatIsUnmeasuredIfAnythingIs) {
  CaseResult c = two_steps_of_layers();
  EXPECT_FALSE(case_json(c).contains("intervals"));
  CaseIntervals& intervals = c.intervals.emplace();
  intervals.seconds = {2.5, 3.5};
  intervals.speedup = {0.5, 1.5};
  EXPECT_EQ(case_json(c)["intervals"].dump(), R"({"step_s":[2.5,3.5],"speedup":[0.5,1.5]})");
}

TEST(SumsByHand, ACaseThatWasNotRunHasItsNamesAndTheReason) {
  CaseResult c = two_steps_of_layers();
  c.unsuitable = "too few GPUs";
  EXPECT_EQ(case_json(c).dump(),
            R"({"topology":"cluster","policy":"a","fidelity":"port","unsuitable":"too few GPUs"})");
  c.interrupted = true;
  EXPECT_EQ(case_json(c)["interrupted"], true);
  EXPECT_EQ(reason_not_run(c), "a on cluster was not run: too few GPUs");
}

// 48 tokens in 3 s on 8 GPUs: 2 per second and GPU.
TEST(SumsByHand, RatesAreOfAGpuAndFlopOfIterationsOnly) {
  CaseResult c = two_steps_of_layers();
  EXPECT_DOUBLE_EQ(c.tokens_per_second(), 2);
  EXPECT_EQ(c.tflops(), 0);
  EXPECT_EQ(c.mfu(), 0);
  IterationFigures& figures = c.metrics.iteration.emplace();
  figures.times.iteration = Seconds(3);
  figures.flop_per_token = 5e12;
  EXPECT_DOUBLE_EQ(c.tflops(), 10);
  EXPECT_EQ(c.mfu(), 0) << "no peak is known";
  figures.peak_flops = 4e13;
  EXPECT_DOUBLE_EQ(c.mfu(), 0.25);
}

}  // namespace
}  // namespace moesim
