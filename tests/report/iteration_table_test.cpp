// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "sim/report/table.h"
#include "tests/report/iteration_case.h"
#include "tests/report/table_rows.h"
#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

CaseResult with_peak(const std::string& policy, std::int64_t gb) {
  CaseResult c = test::iteration_case("cluster", policy, "recorded", 1);
  FullestGpu& gpu = c.metrics.iteration->fullest;
  gpu = {Bytes(gb * 1'000'000'000), Bytes(10'000'000'000), Bytes(80'000'000'000), GpuId(3)};
  gpu.when = "in turn 2";
  gpu.parts = {{"weights", Bytes(0)}, {"activations", gpu.peak}};
  return c;
}

TEST(IterationTable, MarksPeaksThatAreMoreThanTheGpuHas) {
  const std::string text = comparison_table({with_peak("fits", 80), with_peak("full", 81)}).text();
  EXPECT_THAT(text, ::testing::ContainsRegex("fits .* 80 GB "));
  EXPECT_THAT(text, ::testing::ContainsRegex("full .* 81 GB! "));
}

/// What a terminal of 80 columns shows of the first table.
TEST(IterationTable, WhatDecidesComesFirst) {
  CaseResult c = with_peak("a", 40);
  c.metrics.tokens = 1'000'000;
  c.metrics.iteration->flop_per_token = 1e9, c.metrics.iteration->peak_flops = 1e15;
  const std::string text = comparison_table({c}).text();
  EXPECT_THAT(text, ::testing::ContainsRegex(
                        "policy +routing +iteration +speedup +MFU +peak memory +critical path"));
}

TEST(IterationTable, ChoicesThatAreDroppedCountNoFlop) {
  CaseResult c = with_peak("a", 40);
  c.metrics.tokens = 1'000'000;
  c.metrics.iteration->flop_per_token = 1e9, c.metrics.iteration->peak_flops = 1e15;
  const double all = c.mfu();
  c.metrics.iteration->routed_flop = 5e8;
  c.metrics.loss.choices = 8, c.metrics.loss.dropped = 4;
  EXPECT_DOUBLE_EQ(c.mfu(), 0.75 * all);
}

TEST(IterationTable, ShowsThePartsOfThePeakThatAreThere) {
  const std::string text = comparison_table({with_peak("a", 40)}).text();
  EXPECT_THAT(text, ::testing::HasSubstr("# memory of the fullest GPU"));
  EXPECT_THAT(text, ::testing::HasSubstr("activations"));
  EXPECT_THAT(text, ::testing::Not(::testing::HasSubstr("weights")));
}

TEST(IterationTable, HasColumnsOnlyOfWhatIsThere) {
  CaseResult c = test::iteration_case("cluster", "a", "recorded", 4);
  const std::string bare = comparison_table({c}).text();
  EXPECT_THAT(bare, ::testing::Not(::testing::HasSubstr("# memory of the fullest GPU")));
  EXPECT_THAT(bare, ::testing::Not(::testing::HasSubstr("overlapped")));
  c.metrics.iteration->times.overlapped = Seconds(1);
  EXPECT_THAT(comparison_table({c}).text(), ::testing::HasSubstr("overlapped"));
}

/// What a table shows of a case, by column.
std::map<std::string, std::string> shown_of(const CaseResult& c) {
  const Printout printout = comparison_table({c});
  const auto& table = std::get<Table>(printout.parts().at(0));
  std::map<std::string, std::string> shown;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].telling) shown[table.columns[i].name] = table.rows.at(0).at(i).text;
  }
  return shown;
}

void expect_shown(const CaseResult& c, const std::map<std::string, std::string>& expected) {
  const auto shown = shown_of(c);
  for (const auto& [column, text] : expected) {
    const auto found = shown.find(column);
    EXPECT_EQ(found == shown.end() ? "none" : found->second, text) << column;
  }
}

TEST(IterationTable, ShowsRatesAndPartsOfTheIteration) {
  CaseResult c = with_peak("a", 40);
  c.metrics.tokens = 100'000;
  c.metrics.steps = {Seconds(2)};
  IterationFigures& figures = *c.metrics.iteration;
  figures.times.iteration = Seconds(2);
  figures.flop_per_token = 8e9, figures.peak_flops = 1e14, figures.load_max_over_mean = 1.5;
  const auto part = [&](IterationPart of) -> Seconds& {
    return figures.times.parts[static_cast<std::size_t>(of)];
  };
  part(IterationPart::bubble) = Seconds(0.5), part(IterationPart::waiting) = Seconds(0.25);
  part(IterationPart::experts) = Seconds(1.25), part(IterationPart::host) = Seconds(1e-6);
  figures.times.overlapped = Seconds(0.125);
  expect_shown(c, {{"iteration", "2 s"},
                   {"MFU", "50.0 %"},
                   {"peak memory", "40 GB"},
                   {"tokens/s/GPU", "6250"},
                   {"TFLOP/s/GPU", "50.0"},
                   {"load max/mean", "1.50"},
                   {"experts", "1.25 s"},
                   {"overlapped", "125 ms"},
                   {"peak", "40 GB"},
                   {"mean GPU", "10 GB"},
                   {"activations", "40 GB"},
                   {"host", "none"},  // a millionth or less
                   {"weights", "none"}});
  EXPECT_THAT(comparison_table({c}).text(),
              ::testing::ContainsRegex("6250 +50.0 +25.0 % +12.5 % +1.50"));
}

TEST(IterationTable, ABalancedLoadIsOne) {
  CaseResult c = with_peak("a", 40);
  c.metrics.iteration->load_max_over_mean = 1;
  expect_shown(c, {{"load max/mean", "1.00"}});
}

TEST(IterationTable, LeavesOutWhatIsNotKnown) {
  const CaseResult c = test::iteration_case("cluster", "a", "recorded", 4);
  for (const char* const column :
       {"MFU", "peak memory", "TFLOP/s/GPU", "load max/mean", "over balanced", "overlapped"}) {
    EXPECT_EQ(shown_of(c).count(column), 0u) << column;
  }
  CaseResult pass = c;
  pass.metrics.iteration->serving.emplace();
  for (const char* const column : {"TPOT", "tokens/s/user", "peak memory", "free KV tokens",
                                   "over balanced", "load max/mean"}) {
    EXPECT_EQ(shown_of(pass).count(column), 0u) << column;
  }
}

TEST(ServingTable, ShowsRatesOfUsersAndOfTheWholeCluster) {
  CaseResult c = test::iteration_case("cluster", "a", "recorded", 2, 404);
  c.metrics.iteration->serving = {true, 5, 4, Bytes(6), 7};
  c.metrics.iteration->load_max_over_mean = 1.25;
  c.metrics.iteration->times.parts[static_cast<std::size_t>(IterationPart::waiting)] = Seconds(1);
  expect_shown(c, {{"TPOT", "500 ms"},  // a pass of 2 s keeps 4 tokens of a sequence
                   {"tokens/s/GPU", "25"},
                   {"tokens/s/user", "2.0"},
                   {"tokens/s", "202"},
                   {"free KV tokens", "7"},
                   {"load max/mean", "1.25"}});
  c.metrics.iteration->serving->tokens_per_sequence = 1;
  expect_shown(c, {{"TPOT", "none"}, {"tokens/s/user", "0.5"}});
}

/// Two steps of 2 and 4 s on two hosts.
CaseResult layers_of_two_steps() {
  CaseResult c = test::iteration_case("two", "a", "", 1, 100);
  c.topology = &test::two_hosts();
  c.metrics.iteration.reset();
  c.metrics.steps = {Seconds(2), Seconds(4)};
  LayerMetrics& total = c.metrics.total;
  total.forward = Seconds(2), total.backward = Seconds(4), total.compute = Seconds(6);
  total.communication = Seconds(8), total.exposed = Seconds(10);
  total.parameters = Seconds(7), total.gradients = Seconds(3);
  total.load_max_over_mean.add(1.5);
  total.traffic = {Bytes(100), Bytes(200), Bytes(4000), {0, 300}};
  total.parameter_traffic = {Bytes(1), Bytes(2000), Bytes(4000), {5, 6}};
  total.migrated = Bytes(10'000);
  total.link_bytes.assign(12, 0);
  total.link_bytes[8] = 3'000'000'000;  // half of what a NIC of 1 GB/s carries in 6 s
  c.metrics.breakdown.idle = Seconds(3), c.metrics.breakdown.waiting = Seconds(2);
  c.metrics.breakdown.slowest_compute = Seconds(12), c.metrics.breakdown.overlapped = Seconds(14);
  c.metrics.planning = Seconds(0.5);
  c.metrics.loss.dropped = 1, c.metrics.loss.replaced = 8;
  c.metrics.peak_memory = Bytes(1000), c.metrics.model_memory = Bytes(2001);
  c.metrics.gpu_memory = Bytes(2000);
  c.metrics.layers[7] = total;
  return c;
}

TEST(LayersTable, ShowsTimesBytesAndChoicesPerStep) {
  CaseResult c = layers_of_two_steps();
  expect_shown(c, {{"topology", "two"},        {"step", "3 s"},
                   {"bound by", "idle 50 %"},  {"compute", "3 s"},
                   {"exposed", "5 s"},         {"slowest", "6 s"},
                   {"waiting", "1 s"},         {"overlapped", "7 s"},
                   {"grads", "1.5 s"},         {"params", "2 s"},
                   {"planning", "250 ms"},     {"load max/mean", "1.50"},
                   {"off-host bytes", "2 kB"}, {"busiest link", "nic 50 %"},
                   {"param bytes", "3 kB"},    {"migrated", "5 kB"},
                   {"dropped choices", "0"},   {"replaced choices", "4"},
                   {"memory", "1 kB"},         {"all layers", "2.001 kB!"}});
  c.metrics.model_memory = Bytes(2000);
  expect_shown(c, {{"all layers", "2 kB"}});
  c.metrics.total = {};
  c.metrics.breakdown = {};
  c.metrics.loss = {};
  c.metrics.planning = Seconds(0);
  c.metrics.model_memory = c.metrics.peak_memory;
  expect_shown(c, {{"bound by", "-"},
                   {"busiest link", "-"},
                   {"grads", "none"},
                   {"params", "none"},
                   {"planning", "none"},
                   {"param bytes", "none"},
                   {"migrated", "none"},
                   {"dropped choices", "none"},
                   {"replaced choices", "none"},
                   {"all layers", "none"}});
}

TEST(LayersTable, OfEachLayerHasItsTimesPerStepAndTheClassesThatCarryBytes) {
  EXPECT_THAT(test::rows_of(Printout().add(layer_table(layers_of_two_steps())), "layers"),
              ::testing::ElementsAre("7|1 s|2 s|3 s|4 s|5 s|1.50|nic 150 B"));
  EXPECT_EQ(layer_note(layers_of_two_steps()), "");
}

TEST(LayersTable, OfAnIterationSaysWhatItLeavesOut) {
  CaseResult c = layers_of_two_steps();
  c.metrics.layers.begin()->second.load_max_over_mean = {};
  c.metrics.iteration.emplace();
  EXPECT_EQ(layer_table(c).columns.back().name, "bytes per link class and iteration");
  EXPECT_THAT(test::rows_of(Printout().add(layer_table(c)), "layers"),
              ::testing::ElementsAre("7|1 s|2 s|3 s|4 s|5 s|-|nic 150 B"));
  EXPECT_THAT(layer_note(c), ::testing::StartsWith("# without dense FFNs, "));
}

TEST(CaseJson, OfLayersHasTimesPerStepAndExactSumsOfBytes) {
  CaseResult c = layers_of_two_steps();
  c.metrics.dedup = {Seconds(1), Seconds(2), Bytes(3), Bytes(4)};
  c.metrics.least = Seconds(3);
  c.intervals = {{1, 2}, {3, 4}, {"nic"}, "yes"};
  const nlohmann::ordered_json json = case_json(c);
  const std::string layer =
      R"("forward_s":1.0,"backward_s":2.0,"compute_s":3.0,"communication_s":4.0,)"
      R"("parameter_communication_s":3.5,"gradient_communication_s":1.5,)"
      R"("exposed_communication_s":5.0,"load_max_over_mean":1.5,)"
      R"("traffic":{"same_gpu_bytes":100,"same_host_bytes":200,"other_host_bytes":4000,)"
      R"("link_class_bytes":{"pcie":0,"nic":300}},)"
      R"("parameter_traffic":{"same_gpu_bytes":1,"same_host_bytes":2000,"other_host_bytes":4000,)"
      R"("link_class_bytes":{"pcie":5,"nic":6}},"migrated_bytes":10000,)"
      R"("peak_link":{"from":"node0.nic0","to":"switch","class":"nic","bytes":3000000000,)"
      R"("utilization":0.5})";
  EXPECT_EQ(json["total"].dump(), "{" + layer + "}");
  EXPECT_EQ(json["layers"].dump(), R"([{"layer":7,)" + layer + "}]");
  EXPECT_EQ(json["step_s_each"].dump(), "[2.0,4.0]");
  EXPECT_EQ(json["perfect_dedup"].dump(),
            R"({"bound_s":1.0,"step_s":2.0,"least_other_host_bytes":3,"other_host_bytes":4})");
  EXPECT_EQ(json["intervals"].dump(),
            R"({"step_s":[1.0,2.0],"speedup":[3.0,4.0],"unmeasured":["nic"],"told_apart":"yes"})");
  EXPECT_EQ(json["least_s"], 1.5);
  EXPECT_EQ(json["gpu_memory_bytes"], 2000);
  EXPECT_EQ(json["dropped_choices"], 1);
}

TEST(IterationTable, BoundsArePerStepAndPartsOfItsTime) {
  CaseResult c = test::iteration_case("cluster", "a", "recorded", 4);
  c.metrics.steps = {Seconds(4), Seconds(4)};
  c.metrics.bounds = TimeBounds{.balance = Seconds(1),
                                .compute = Seconds(2),
                                .port = Seconds(4),
                                .no_communication = Seconds(6),
                                .no_bubble = Seconds(8)};
  EXPECT_THAT(comparison_table({c}, true).text(),
              ::testing::ContainsRegex("12.5 % +25.0 % +50.0 % +75.0 % +100.0 %"));
  EXPECT_THAT(comparison_table({c}).text(), ::testing::Not(::testing::HasSubstr("no bubble")));
}

TEST(IterationTable, SaysWhichRoutingDidNotRun) {
  CaseResult c = with_peak("a", 40);
  c.unsuitable = "too full";
  EXPECT_EQ(comparison_table({c}).text(), "# a (recorded) on cluster was not run: too full\n");
}

TEST(IterationTable, WritesThePeakWithItsPartsAsJson) {
  const nlohmann::ordered_json json = case_json(with_peak("a", 40))["peak_memory"];
  EXPECT_EQ(json["bytes"], 40'000'000'000);
  EXPECT_EQ(json["gpu"], 3);
  EXPECT_EQ(json["when"], "in turn 2");
  EXPECT_EQ(json["parts_bytes"]["activations"], 40'000'000'000);
}

TEST(IterationTable, SaysWhatIsLost) {
  CaseResult c = with_peak("a", 40);
  EXPECT_EQ(case_json(c)["lossy"], "");
  c.metrics.loss.compression = 4;
  EXPECT_EQ(case_json(c)["lossy"], "compresses 4x");
  EXPECT_EQ(case_json(c)["loss"]["weight_compression"], 4);
}

TEST(ServingTable, SaysHowMuchLongerThanOnBalancedRoutingAPassTakes) {
  std::vector<CaseResult> cases = {test::iteration_case("cluster", "a", "balanced", 1),
                                   test::iteration_case("cluster", "a", "recorded", 1.25)};
  for (CaseResult& c : cases) c.metrics.iteration->serving.emplace();
  EXPECT_THAT(comparison_table(cases).text(), ::testing::ContainsRegex("recorded .* [+]25.0 %"));
}

TEST(ServingTable, MarksPeaksThatAreMoreThanTheGpuHas) {
  std::vector<CaseResult> cases = {with_peak("fits", 80), with_peak("full", 81)};
  for (CaseResult& c : cases) c.metrics.iteration->serving.emplace();
  const std::string text = comparison_table(cases).text();
  EXPECT_THAT(text, ::testing::ContainsRegex("fits .* 80 GB "));
  EXPECT_THAT(text, ::testing::ContainsRegex("full .* 81 GB! "));
}

}  // namespace
}  // namespace moesim
