// SPDX-License-Identifier: Apache-2.0
#include "sim/report/iteration_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moesim {
namespace {

IterationCase with_peak(const std::string& policy, std::int64_t gb) {
  IterationCase c{"cluster", policy, "recorded", "port", 8};
  c.metrics.times.iteration = Seconds(1);
  c.metrics.iterations = 1;
  FullestGpu& gpu = c.metrics.fullest;
  gpu = {Bytes(gb * 1'000'000'000), Bytes(10'000'000'000), Bytes(80'000'000'000), GpuId(3)};
  gpu.when = "in turn 2";
  gpu.parts = {{"weights", Bytes(0)}, {"activations", gpu.peak}};
  return c;
}

TEST(IterationTable, MarksPeaksThatAreMoreThanTheGpuHas) {
  const std::string text = iteration_table({with_peak("fits", 80), with_peak("full", 81)}).text();
  EXPECT_THAT(text, testing::ContainsRegex("fits .* 80 GB "));
  EXPECT_THAT(text, testing::ContainsRegex("full .* 81 GB! "));
}

/// What a terminal of 80 columns shows of the first table.
TEST(IterationTable, WhatDecidesComesFirst) {
  IterationCase c = with_peak("a", 40);
  c.metrics.tokens = 1'000'000, c.metrics.flop_per_token = 1e9, c.metrics.peak_flops = 1e15;
  const std::string text = iteration_table({c}).text();
  EXPECT_THAT(text, testing::ContainsRegex(
                        "policy +routing +iteration +speedup +MFU +peak memory +critical path"));
}

TEST(IterationTable, ShowsThePartsOfThePeakThatAreThere) {
  const std::string text = iteration_table({with_peak("a", 40)}).text();
  EXPECT_THAT(text, testing::HasSubstr("# memory of the fullest GPU"));
  EXPECT_THAT(text, testing::HasSubstr("activations"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("weights")));
}

TEST(IterationTable, SaysWhichRoutingDidNotRun) {
  IterationCase c = with_peak("a", 40);
  c.unsuitable = "too full";
  EXPECT_EQ(iteration_table({c}).text(), "# a (recorded) on cluster was not run: too full\n");
}

TEST(IterationTable, WritesThePeakWithItsPartsAsJson) {
  const nlohmann::ordered_json json = iteration_json(with_peak("a", 40))["peak_memory"];
  EXPECT_EQ(json["bytes"], 40'000'000'000);
  EXPECT_EQ(json["gpu"], 3);
  EXPECT_EQ(json["when"], "in turn 2");
  EXPECT_EQ(json["parts_bytes"]["activations"], 40'000'000'000);
}

}  // namespace
}  // namespace moesim
