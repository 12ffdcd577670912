// SPDX-License-Identifier: Apache-2.0
// Rows of small iterations against runs of their scenarios.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/evidence/paper_case.h"
#include "sim/evidence/predict_iterations.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

/// Of the row `name` on a node of 8 GPUs, with so many sequences per iteration.
PaperTable small_row(int batch, const std::string& more, int nodes = 1) {
  return rows_table(
      "- {name: a, model: tiny-moe, policy: alltoall, topology: h100-rail, gpus: 8, "
      "synth: {tokens: 1024}, batch: {global: " +
      std::to_string(batch) + ", micro: 1, sequence: 128}, set: [topology.nodes=" +
      std::to_string(nodes) + "], " + more + "}\n");
}

PredictedFigure only_row(const PaperTable& table, bool whole = false) {
  return predict_iterations({table}, {.workers = 1, .whole = whole}).at({0, 0});
}

IterationFigures figures_of_only_row(const PaperTable& table) {
  const PaperFigure& figure = table.figures.at(0);
  const PaperSetting& setting = table.settings.at(figure.setting);
  const Scenario scenario = scenario_of(setting, setting.flags, table.variants.at(figure.variant));
  return iteration_figures(scenario, open_inputs(scenario));
}

TEST(PredictedRows, AreTheIterationsOfTheirScenarios) {
  const PaperTable table = small_row(16, "parallel: {pp: 2, ep: 4}, published: 2 s");
  const PredictedFigure row = only_row(table);
  ASSERT_TRUE(row.there()) << row.why;
  const IterationFigures run = figures_of_only_row(table);
  EXPECT_EQ(row.iteration->times, run.times);
  EXPECT_EQ(row.value, run.times.iteration.value);
  EXPECT_EQ(row.iteration->stage_turns, run.stage_turns);
  EXPECT_EQ(row.iteration->peak, run.fullest.peak);
  EXPECT_EQ(row.iteration->memory, run.fullest.memory);
  EXPECT_EQ(row.iteration->gpus, 8);
  EXPECT_EQ(row.iteration->network, "") << "one host";
  EXPECT_FALSE(row.published);
}

TEST(PredictedRows, HaveTheGpusThatArePublished) {
  try {
    only_row(small_row(16, "parallel: {ep: 8}, published: 2 s", 2));
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("8 GPUs as published, and 16 in the cluster"));
  }
}

// 40 microbatches of 8 sequences: those of 24, and twice what 8 take that 24 has more than 16.
TEST(PredictedRows, OfManyMicrobatchesFewerAreRun) {
  const std::string more = "parallel: {ep: 8}, published: 2 s";
  const double first = figures_of_only_row(small_row(16 * 8, more)).times.iteration.value;
  const double second = figures_of_only_row(small_row(24 * 8, more)).times.iteration.value;
  EXPECT_NEAR(only_row(small_row(40 * 8, more)).value, second + 2 * (second - first), 1e-12);
  const double whole = figures_of_only_row(small_row(40 * 8, more)).times.iteration.value;
  EXPECT_EQ(only_row(small_row(40 * 8, more), true).value, whole);
}

TEST(PredictedRows, ARateOfAGpuIsATimeByTheModelsFlop) {
  const PredictedFigure row = only_row(small_row(16, "parallel: {ep: 8}, published: 1 TFLOP/s"));
  ASSERT_TRUE(row.there()) << row.why;
  EXPECT_DOUBLE_EQ(*row.published, 16 * 128 * row.iteration->flop_per_token / (8 * 1e12));
  const PredictedFigure all =
      only_row(small_row(16, "parallel: {ep: 8}, scores: all, published: 1 TFLOP/s"));
  EXPECT_GT(all.iteration->masked_flop, 0);
  EXPECT_DOUBLE_EQ(
      *all.published,
      16 * 128 * (all.iteration->flop_per_token + all.iteration->masked_flop) / (8 * 1e12));
}

}  // namespace
}  // namespace moesim
