// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/report/table.h"
#include "tests/report/iteration_case.h"

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
  EXPECT_THAT(text, testing::ContainsRegex("fits .* 80 GB "));
  EXPECT_THAT(text, testing::ContainsRegex("full .* 81 GB! "));
}

/// What a terminal of 80 columns shows of the first table.
TEST(IterationTable, WhatDecidesComesFirst) {
  CaseResult c = with_peak("a", 40);
  c.metrics.tokens = 1'000'000;
  c.metrics.iteration->flop_per_token = 1e9, c.metrics.iteration->peak_flops = 1e15;
  const std::string text = comparison_table({c}).text();
  EXPECT_THAT(text, testing::ContainsRegex(
                        "policy +routing +iteration +speedup +MFU +peak memory +critical path"));
}

TEST(IterationTable, ShowsThePartsOfThePeakThatAreThere) {
  const std::string text = comparison_table({with_peak("a", 40)}).text();
  EXPECT_THAT(text, testing::HasSubstr("# memory of the fullest GPU"));
  EXPECT_THAT(text, testing::HasSubstr("activations"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("weights")));
}

TEST(IterationTable, HasColumnsOnlyOfWhatIsThere) {
  CaseResult c = test::iteration_case("cluster", "a", "recorded", 4);
  const std::string bare = comparison_table({c}).text();
  EXPECT_THAT(bare, ::testing::Not(::testing::HasSubstr("# memory of the fullest GPU")));
  EXPECT_THAT(bare, ::testing::Not(::testing::HasSubstr("overlapped")));
  c.metrics.iteration->times.overlapped = Seconds(1);
  EXPECT_THAT(comparison_table({c}).text(), ::testing::HasSubstr("overlapped"));
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
  EXPECT_THAT(comparison_table(cases).text(), testing::ContainsRegex("recorded .* [+]25.0 %"));
}

TEST(ServingTable, MarksPeaksThatAreMoreThanTheGpuHas) {
  std::vector<CaseResult> cases = {with_peak("fits", 80), with_peak("full", 81)};
  for (CaseResult& c : cases) c.metrics.iteration->serving.emplace();
  const std::string text = comparison_table(cases).text();
  EXPECT_THAT(text, testing::ContainsRegex("fits .* 80 GB "));
  EXPECT_THAT(text, testing::ContainsRegex("full .* 81 GB! "));
}

}  // namespace
}  // namespace moesim
