// SPDX-License-Identifier: Apache-2.0
// What reports draw adds up to the figures of the tables.
#include "sim/report/pictures.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/base/wire.h"
#include "sim/run/pictured_results.h"
#include "sim/run/simulate.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

std::int64_t sum_of(const Pictures& pictures, TrafficKind kind) {
  std::int64_t sum = 0;
  for (const auto& [pair, bytes] : pictures.traffic[static_cast<std::size_t>(kind)]) sum += bytes;
  return sum;
}

/// What a lane is busy with, all together; its bars must follow each other.
Seconds busy(const GanttLane& lane) {
  Seconds sum, end;
  for (const GanttBar& bar : lane.bars) {
    EXPECT_GE(bar.start.value, end.value * (1 - 1e-12));
    EXPECT_LE(bar.start, bar.moving);
    EXPECT_LT(bar.start, bar.end);
    sum += bar.end - bar.start;
    end = bar.end;
  }
  return sum;
}

TEST(Pictures, BytesAndLoadsAreThoseOfTheTable) {
  const Scenario scenario = scenario_of("[alltoall, llep]");
  const Inputs inputs = open_inputs(scenario);
  for (const CaseResult& c : simulate(scenario, inputs, {.workers = 2, .pictures = true}).cases) {
    ASSERT_EQ(c.pictures.size(), 1u);
    const Pictures& p = c.pictures.front();
    const LayerMetrics& total = c.metrics.total;
    EXPECT_EQ(p.link_bytes, total.link_bytes);
    EXPECT_EQ(sum_of(p, TrafficKind::tokens),
              (total.traffic.same_host + total.traffic.other_host).value);
    EXPECT_EQ(sum_of(p, TrafficKind::parameters),
              (total.parameter_traffic.same_host + total.parameter_traffic.other_host).value);
    EXPECT_DOUBLE_EQ(p.time.value, c.metrics.time_of_steps().value);
    Mean load;
    for (const auto& [layer, steps] : p.rows) {
      EXPECT_EQ(steps.size(), 3u);
      for (const auto& [step, rows] : steps) {
        std::int64_t most = 0, all = 0;
        for (const auto& [gpu, number] : rows) most = std::max(most, number), all += number;
        load.add(static_cast<double>(most) * p.gpus / static_cast<double>(all));
      }
    }
    EXPECT_NEAR(load.value(), total.load_max_over_mean.value(), 1e-9);
    EXPECT_EQ(from_bytes<Pictures>(to_bytes(p)), p);
  }
}

TEST(Pictures, AreNotGatheredUnasked) {
  const Scenario scenario = scenario_of("alltoall");
  const Inputs inputs = open_inputs(scenario);
  EXPECT_TRUE(simulate(scenario, inputs, {}).cases.front().pictures.empty());
}

TEST(Pictures, ATimelineHasTheGpuThatComputesLongest) {
  const Scenario scenario = scenario_of("alltoall", {{"steps", "3", "s"}});
  const Inputs inputs = open_inputs(scenario);
  const CaseResult c = simulate(scenario, inputs, {.pictures = true}).cases.front();
  const auto& gantts = c.pictures.front().gantts;
  ASSERT_EQ(gantts.size(), 1u);
  EXPECT_EQ(gantts[0].to, c.metrics.steps[0]);
  Seconds longest;
  for (const GanttLane& lane : gantts[0].lanes) {
    const Seconds time = busy(lane);
    if (lane.stream == Stream::compute) longest = std::max(longest, time);
  }
  EXPECT_NEAR(longest.value, c.metrics.breakdown.slowest_compute.value, 1e-12);
}

TEST(Pictures, UtilizationIsThatOfTheBusiestLink) {
  const Scenario scenario = scenario_of("alltoall");
  const Inputs inputs = open_inputs(scenario);
  const CaseResult c = simulate(scenario, inputs, {.pictures = true}).cases.front();
  const Json links = pictures_json(c.pictures.front(), *c.topology)["links"];
  double most = 0;
  for (const Json& each : links["classes"]) most = std::max(most, each["most"].get<double>());
  const auto peak = peak_link(c.metrics.total.link_bytes, c.metrics.time_of_steps(), *c.topology);
  EXPECT_NEAR(most, peak->utilization, 1e-9);
  const Json drawing = drawing_json(*c.topology);
  EXPECT_EQ(drawing["links"].size(), links["drawn_permille"].size());
  EXPECT_EQ(drawing["links"].size(), c.topology->links().size());
}

/// Two pipeline stages of one GPU each, so many ops that they are folded.
struct LongPlan {
  Plan plan{"long", 2, {}};
  Timeline timeline;
  int per_pass = 400, microbatches = 5;

  LongPlan() {
    Seconds now;
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        for (int i = 0; i < per_pass; ++i) {
          for (const int gpu : {0, 1}) {
            Op op;
            op.label = "fc1";
            op.key.kind = OpKind::fc1;
            op.key.layer = gpu;
            op.key.microbatch = microbatch;
            op.key.pass = pass;
            op.group = {GpuId(gpu)};
            op.work = Kernels(MemoryBound{Bytes(1), Bytes(1)});
            plan.ops.push_back(op);
            timeline.ops.add_row({{now, now + Seconds(1)}});
          }
          now += Seconds(1);
        }
      }
    }
    timeline.makespan = now;
  }
};

TEST(Pictures, ALongTimelineIsFoldedAndItsMiddleIsShownInDetail) {
  const LongPlan made;
  const std::vector<Gantt> gantts = gantts_of(made.plan, made.timeline);
  ASSERT_EQ(gantts.size(), 2u);
  EXPECT_TRUE(gantts[0].folded);
  ASSERT_EQ(gantts[0].lanes.size(), 2u);  // both stages
  for (const GanttLane& lane : gantts[0].lanes) {
    EXPECT_EQ(lane.bars.size(), 10u);  // a forward and a backward of every microbatch
    EXPECT_EQ(busy(lane), made.timeline.makespan);
    EXPECT_EQ(lane.bars[3].microbatch, 1);
    EXPECT_EQ(lane.bars[3].pass, Pass::backward);
  }
  EXPECT_FALSE(gantts[1].folded);
  std::size_t bars = 0;
  for (const GanttLane& lane : gantts[1].lanes) bars += lane.bars.size();
  EXPECT_GT(bars, 1000u);
  EXPECT_LE(bars, 1300u);
  EXPECT_GE(gantts[1].from.value, 0.49 * made.timeline.makespan.value);
}

TEST(Pictures, OfAnIterationHaveAStagePerTimelineAndTheMemoryOfTheTable) {
  const Scenario scenario =
      read_scenario("", {{"topology", "h100-rail", "t"},
                         {"model", "gpt-oss-20b", "m"},
                         {"trace", "tiny-moe-train", "r"},
                         {"policy", "alltoall", "p"},
                         {"parallel", "{pp: 2, ep: 4}", "g"},
                         {"batch", "{global: 16, micro: 1, sequence: 512}", "b"},
                         {"set", "topology.nodes=1", "n"}});
  const Inputs inputs = open_inputs(scenario);
  const auto cases = simulate(scenario, inputs, {.pictures = true}).cases;
  const Pictures& p = cases.back().pictures.front();
  EXPECT_EQ(p.microbatches, 4);
  ASSERT_EQ(p.memory.size(), 1u);
  std::int64_t most = 0;
  for (const auto& turn : p.memory[0].bytes) {
    most = std::max(most, std::accumulate(turn.begin(), turn.end(), std::int64_t{0}));
  }
  EXPECT_EQ(most, cases.back().metrics.iteration->fullest.peak.value);
  EXPECT_EQ(p.memory[0].turns.size(), p.memory[0].bytes.size());
  EXPECT_GT(sum_of(p, TrafficKind::stages), 0);
  std::set<GpuId> drawn;
  for (const GanttLane& lane : p.gantts[0].lanes) drawn.insert(lane.gpu);
  EXPECT_EQ(drawn.size(), 2u);  // one of each stage
  Json document = {{"cases", Json::array({Json::object()})}};
  const PicturedCase pictured{"h100", Seconds(1), &inputs.clusters[0].topology, &p};
  add_pictures(document, {pictured}, inputs.trace);
  EXPECT_EQ(document["cases"][0]["pictures"]["loads"]["layers"].size(), 24u);
  EXPECT_EQ(document["drawings"].size(), 1u);
  EXPECT_EQ(document["expert_loads"]["percent_of_mean"][0].size(), 32u);
}

/// A document of 200 cases that are one run by other names and times.
Json drawn(const std::function<PicturedCase(int, const CaseResult&)>& case_of) {
  const Scenario scenario = scenario_of("alltoall");
  const Inputs inputs = open_inputs(scenario);
  const CaseResult c = simulate(scenario, inputs, {.pictures = true}).cases.front();
  Json document = {{"cases", Json::array()}};
  std::vector<PicturedCase> cases;
  for (int i = 0; i < 200; ++i) {
    document["cases"].push_back(Json::object());
    cases.push_back(case_of(i, c));
  }
  add_pictures(document, cases, inputs.trace);
  return document;
}

TEST(Pictures, TheFirstAndTheFastestStayWhereNotAllFit) {
  const Json document = drawn([](int i, const CaseResult& c) {
    return PicturedCase{"one",
                        Seconds(i == 150   ? 1
                                : i == 160 ? 9
                                           : 5),
                        c.topology, &c.pictures[0]};
  });
  EXPECT_LT(document.dump().size(), 2'000'000u);
  for (const std::size_t i : {0u, 150u, 160u}) {
    EXPECT_TRUE(document["cases"][i].contains("pictures")) << i;
  }
  EXPECT_FALSE(document["cases"][199].contains("pictures"));
}

TEST(Pictures, TheFirstAndTheFastestOfEveryGroupComeBeforeAllOthers) {
  const Json document = drawn([](int i, const CaseResult& c) {
    return PicturedCase{i < 190 ? "one" : "two",
                        Seconds(i == 195   ? 1
                                : i == 197 ? 9
                                           : 5),
                        c.topology, i == 0 ? nullptr : &c.pictures[0]};
  });
  for (const std::size_t i : {1u, 190u, 195u, 197u}) {
    EXPECT_TRUE(document["cases"][i].contains("pictures")) << i;
  }
  for (const std::size_t i : {0u, 191u, 196u}) {
    EXPECT_FALSE(document["cases"][i].contains("pictures")) << i;
  }
  EXPECT_EQ(document["drawings"].size(), 1u) << "of all cases on one topology";
}

TEST(Pictures, OfManyGroupsAreThoseOfTheFirst) {
  const Json document = drawn([](int i, const CaseResult& c) {
    return PicturedCase{fmt::format("{:03}", i), Seconds(5), c.topology, &c.pictures[0]};
  });
  EXPECT_TRUE(document["cases"][0].contains("pictures"));
  EXPECT_TRUE(document["cases"][1].contains("pictures"));
  EXPECT_FALSE(document["cases"][199].contains("pictures"));
}

}  // namespace
}  // namespace moesim
