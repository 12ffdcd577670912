// SPDX-License-Identifier: Apache-2.0
// What parts of steps and measured files are counted as, where a few ops show all of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/model/gpu_model.h"
#include "sim/report/critical_path.h"
#include "sim/report/hardware_result.h"
#include "sim/report/iteration_metrics.h"
#include "sim/report/metrics.h"
#include "sim/report/order_notes.h"
#include "sim/report/path_sums.h"
#include "sim/report/pictures.h"
#include "sim/report/table.h"
#include "sim/report/time_bounds_table.h"
#include "tests/error_of.h"
#include "tests/plan/fixtures.h"
#include "tests/report/iteration_case.h"
#include "tests/report/two_hosts.h"

namespace moesim::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PartsByHand, KernelsBelongToTheirPartOfTheIteration) {
  const std::vector<std::pair<OpKind, IterationPart>> all = {
      {OpKind::attention_scores, IterationPart::attention},
      {OpKind::fc2, IterationPart::experts},
      {OpKind::gate, IterationPart::moe_other},
      {OpKind::head, IterationPart::dense},
      {OpKind::optimizer, IterationPart::optimizer}};
  Plan plan{"plan", 1, {}};
  Timeline timeline;
  double start = 0;
  for (const auto& [kind, part] : all) {
    Op op = kernel("x", 0);
    op.key.kind = kind;
    plan.add(std::move(op));
    const double end = start + 1 + static_cast<double>(part);
    timeline.ops.add_row({{Seconds(start), Seconds(end)}});
    start = end;
  }
  timeline.makespan = Seconds(start);
  const IterationTimes times = iteration_times(plan, timeline);
  for (const auto& [kind, part] : all) {
    EXPECT_DOUBLE_EQ(times.of(part).value, 1 + static_cast<double>(part)) << name_of(part);
  }
  EXPECT_EQ(times.of(IterationPart::bubble), Seconds(0));
}

// Two exchanges of one matrix: 5 and 7 bytes stay where they are, 100 go from GPU 0 to GPU 1.
TEST(PartsByHand, BytesThatStayOnTheirGpuAreCountedApart) {
  Plan plan{"plan", 8, {}};
  Timeline timeline;
  Op op = exchange("x", {0, 1}, matrix(2, 1, {{0, 0, 5}, {0, 1, 100}, {1, 1, 7}}));
  op.key.stage = Stage::dispatch;
  op.key.layer = 2;
  for (int i = 0; i < 2; ++i) {
    plan.add(op);
    timeline.ops.add_row({{Seconds(i), Seconds(i + 1)}, {Seconds(i), Seconds(i + 1)}});
  }
  timeline.makespan = Seconds(2);
  const PricedPlan priced(plan, eight_gpus());
  RunMetrics run;
  add_step(run, priced, timeline);
  const LayerMetrics& layer = run.layers.at(2);
  EXPECT_EQ(layer.traffic.same_gpu, Bytes(24));
  EXPECT_EQ(layer.traffic.same_host, Bytes(200));
  EXPECT_EQ(layer.traffic.other_host, Bytes(0));
  std::int64_t on_links = 0;
  for (const std::int64_t bytes : layer.link_bytes) on_links += bytes;
  EXPECT_EQ(on_links, 400) << "into the switch and out of it";
  Pictures pictures;
  pictures.add(priced, timeline);
  EXPECT_EQ(pictures.traffic[static_cast<std::size_t>(TrafficKind::tokens)].at({0, 1}), 200);
}

TEST(PartsByHand, SumsOfPathsAddEveryPart) {
  PathSums one;
  one.length = Seconds(3), one.segments = 2;
  one.layers = {{1, Seconds(3)}};
  one.gpus = {Seconds(3)}, one.waited = {Seconds(1)};
  PathPart& part = one.kinds[static_cast<std::size_t>(PathKind::combine)];
  part = {Seconds(3), {{"nic", Seconds(2)}, {"latency", Seconds(1)}}, {{"a -> b", Seconds(2)}}};
  PathSums sum = one;
  sum.add(one);
  EXPECT_EQ(sum.length, Seconds(6));
  EXPECT_EQ(sum.segments, 4);
  EXPECT_EQ(sum.layers, (std::map<int, Seconds>{{1, Seconds(6)}}));
  EXPECT_EQ(sum.gpus, std::vector{Seconds(6)});
  EXPECT_EQ(sum.waited, std::vector{Seconds(2)});
  EXPECT_EQ(sum.of(PathKind::combine), (PathPart{Seconds(6),
                                                 {{"nic", Seconds(4)}, {"latency", Seconds(2)}},
                                                 {{"a -> b", Seconds(4)}}}));
}

// By itself it takes 1 us and 2 MB / 1 TB/s; what is more, an exchange beside it has cost.
TEST(PartsByHand, AKernelThatTakesLongerHasContention) {
  Plan plan{"plan", 2, {}};
  plan.add(kernel("gate", 0, {}, MemoryBound{Bytes(1'000'000), Bytes(1'000'000)}));
  const auto gpu = std::make_shared<const GpuModel>(
      parse_gpu_model("name: round\nsource: test\nmemory: 10 GB\nmemory_bandwidth: 1 TB/s\n"
                      "peak: {bf16: 100 TFLOP/s}\nlaunch_overhead: 1 us\n",
                      "round"));
  const auto bound = [&](double microseconds) {
    const PathSegment segment{
        OpId(0), GpuId(0), GpuId(0), {Seconds(0), Seconds(microseconds * 1e-6)}};
    return resources_of(path_sums({segment}, PricedPlan(plan, two_hosts()), {gpu, gpu}));
  };
  const TimeByResource longer = bound(4);
  EXPECT_EQ(longer.size(), 2u);
  EXPECT_NEAR(longer.at("memory").value, 3e-6, 1e-15);
  EXPECT_NEAR(longer.at("contention").value, 1e-6, 1e-15);
  EXPECT_EQ(bound(3).size(), 1u);
}

TEST(PartsByHand, ThePathEndsOnTheGpuThatEndsLast) {
  Plan plan{"plan", 3, {}};
  plan.add(kernels("gate", {0, 1, 2}, {}, Kernels(HostWork{1})));
  Timeline timeline;
  timeline.ops.add_row(
      {{Seconds(0), Seconds(5)}, {Seconds(0), Seconds(3)}, {Seconds(0), Seconds(9)}});
  timeline.makespan = Seconds(9);
  const auto path = critical_path(plan, timeline);
  ASSERT_EQ(path.size(), 1u);
  EXPECT_EQ(path[0].gpu, GpuId(2));
  EXPECT_EQ(path[0].length(), Seconds(9));
}

TEST(PartsByHand, TiesAreNotSlower) {
  const auto stepping = [](const std::string& policy, double hidden) {
    CaseResult c = iteration_case("a", policy, "", 4);
    c.metrics.iteration.reset();
    c.metrics.breakdown.overlapped = Seconds(hidden);
    return c;
  };
  EXPECT_THAT(order_notes({stepping("hides", 2), stepping("does-not", 0)}),
              Not(HasSubstr("hides exchanges")));
}

TEST(PartsByHand, BoundsHaveATitleAboveTheirColumns) {
  CaseResult c = iteration_case("cluster", "a", "recorded", 4);
  EXPECT_THAT(comparison_table({c}, true).text(), Not(HasSubstr(time_bounds_title)));
  c.metrics.bounds.emplace().compute = Seconds(2);
  EXPECT_THAT(comparison_table({c}, true).text(), HasSubstr(time_bounds_title));
  EXPECT_THAT(comparison_table({c}, false).text(), Not(HasSubstr(time_bounds_title)));
}

/// What moesim-hw would have written of a step.
nlohmann::ordered_json measured_document() {
  return {{"format", "moesim-hw-result"},
          {"format_version", 2},
          {"moesim", "0.1.0"},
          {"date", "2026-01-01T00:00Z"},
          {"description", "nothing"},
          {"ranks", 4},
          {"hosts", 2},
          {"warmup", 0},
          {"repeats", 3},
          {"scenario", {{"model", "hand"}, {"transport", "ideal"}, {"set", {"topology.nodes=2"}}}},
          {"cases",
           {{{"policy", "megatron"},
             {"wrong", 5},
             {"measured_steps",
              {{{"plan_xxh3", "ab"},
                {"repeats_s", {1.5, 0.5, 2.5}},
                {"waiting_s", 0.25},
                {"ops",
                 {{{"name", "fc1"}, {"stage", "experts"}, {"stream", "compute"}, {"time_s", 2}},
                  {{"name", "x"}, {"stage", "combine"}, {"stream", "ep"}, {"time_s", 3}}}}}}}},
            {{"policy", "dedup"}, {"unsuitable", "too few"}}}}};
}

TEST(MeasuredFile, IsReadWithEveryField) {
  const HardwareResult result = parse_hardware_result(measured_document().dump(), "m.json");
  EXPECT_EQ(result.file, "m.json");
  EXPECT_EQ(result.moesim, "0.1.0");
  EXPECT_EQ(result.date, "2026-01-01T00:00Z");
  EXPECT_EQ(result.description, "nothing");
  EXPECT_EQ((std::vector{result.ranks, result.hosts, result.warmup, result.repeats}),
            (std::vector{4, 2, 0, 3}));
  ASSERT_EQ(result.scenario.size(), 3u);
  EXPECT_EQ(result.scenario[2].value, "topology.nodes=2");
  ASSERT_EQ(result.cases.size(), 2u);
  EXPECT_EQ(result.cases[1].unsuitable, "too few");
  EXPECT_EQ(result.cases[0].wrong, 5);
  ASSERT_EQ(result.cases[0].steps.size(), 1u);
  const HardwareStep& step = result.cases[0].steps[0];
  EXPECT_EQ(step.plan, "ab");
  EXPECT_EQ(step.repeats, (std::vector{Seconds(1.5), Seconds(0.5), Seconds(2.5)}));
  EXPECT_EQ(step.ops.waiting, Seconds(0.25));
  EXPECT_EQ(step.ops.kinds,
            (std::map<OpGroup, Seconds>{{{"fc1", Stage::experts, Stream::compute}, Seconds(2)},
                                        {{"x", Stage::combine, Stream::ep}, Seconds(3)}}));
}

TEST(MeasuredFile, AnotherDocumentIsToldByItsFormat) {
  const auto said = [](const auto& change) {
    nlohmann::ordered_json document = measured_document();
    change(document);
    return error_of([&] { parse_hardware_result(document.dump(), "m.json"); });
  };
  EXPECT_THAT(said([](auto& json) { json.erase("format"); }),
              HasSubstr("is not a result of moesim-hw: it does not tell its 'format'"));
  EXPECT_THAT(said([](auto& json) { json["format"] = "other"; }), HasSubstr("'format' is 'other'"));
  EXPECT_THAT(said([](auto& json) { json["format_version"] = 3; }),
              HasSubstr("'format_version' is 3, not 2"));
  for (const char* count : {"ranks", "hosts", "repeats"}) {
    EXPECT_THAT(said([&](auto& json) { json[count] = 0; }), HasSubstr(count));
    EXPECT_EQ(said([&](auto& json) { json[count] = 1; }), "") << count;
  }
  EXPECT_THAT(said([](auto& json) { json["warmup"] = -1; }), HasSubstr("warmup"));
}

}  // namespace
}  // namespace moesim::test
