// SPDX-License-Identifier: Apache-2.0
// Rows of published iterations: how they are read, placed and extended, and what ships.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/base/files.h"
#include "sim/evidence/model_error.h"
#include "sim/evidence/predict_iterations.h"
#include "sim/evidence/shipped_tables.h"
#include "sim/scenario/scenario.h"
#include "tests/evidence/rows.h"

namespace moesim {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// The changes that a row makes to its inputs, in order.
std::vector<std::string> changes_of(const PaperTable& table, const std::string& row) {
  std::vector<std::string> changes;
  for (const PaperFigure& figure : table.figures) {
    if (figure.name != row) continue;
    for (const auto& flags :
         {table.settings[figure.setting].flags, table.variants[figure.variant].flags}) {
      for (const Override& flag : flags) {
        if (flag.path == "set") changes.push_back(flag.value);
      }
    }
  }
  return changes;
}

std::string flag_of(const PaperTable& table, const std::string& row, const std::string& path) {
  for (const PaperSetting& setting : table.settings) {
    const auto found = std::ranges::find(setting.flags, path, &Override::path);
    if (setting.name == row && found != setting.flags.end()) return found->value;
  }
  return "";
}

const std::string plain =
    "{name: a, model: mixtral-8x7b, policy: megatron, topology: h100-rail, gpus: 8, parallel: {ep: "
    "8, tp: 2}, batch: {global: 32, micro: 1, sequence: 4096}, published: ";

TEST(IterationRows, WhatIsPrintedBecomesSeconds) {
  const PaperTable table = rows_table("- " + plain + "2 s}\n" +
                                          "- {name: b, like: a, published: 250 ms}\n"
                                          "- {name: c, like: a, published: 4096 tokens/s}\n"
                                          "- {name: d, like: a, published: 40 %}\n"
                                          "- {name: e, like: a, published: 400 TFLOP/s}\n",
                                      "peak: 1000 TFLOP/s\n");
  ASSERT_TRUE(table.iterations);
  EXPECT_DOUBLE_EQ(*table.figures[0].published, 2);
  EXPECT_DOUBLE_EQ(*table.figures[1].published, 0.25);
  EXPECT_DOUBLE_EQ(*table.figures[2].published, 4);  // 32 x 4096 / (8 x 4096)
  for (const std::size_t rate : {3, 4}) {
    EXPECT_FALSE(table.figures[rate].published);  // until the model's flop are known
    EXPECT_DOUBLE_EQ(table.figures[rate].iteration->rate->value, 400e12);
  }
}

TEST(IterationRows, ARowKeepsWhatItDoesNotChange) {
  const PaperTable table = rows_table(
      "- " + plain + "2 s, set: [x=1], zero: 3, peak_memory: 3 GiB}\n" +
      "- {name: b, release: 26.02, like: a, parallel: {ep: 4}, batch: {global: 64}, set: [y=2]}\n");
  EXPECT_EQ(table.figures[1].name, "b-26.02");
  EXPECT_EQ(flag_of(table, "b-26.02", "parallel.ep"), "4");
  EXPECT_EQ(flag_of(table, "b-26.02", "parallel.tp"), "2");
  EXPECT_EQ(flag_of(table, "b-26.02", "zero"), "3");
  EXPECT_EQ(table.figures[1].iteration->tokens, 64 * 4096);
  EXPECT_THAT(changes_of(table, "b-26.02"), ElementsAre("x=1", "y=2"));
  EXPECT_FALSE(table.figures[1].published);  // what was measured is a row's own
  EXPECT_FALSE(table.figures[1].iteration->peak_memory);
}

TEST(IterationRows, ASeriesIsARowForEachNumberOfGpus) {
  const PaperTable table = rows_table(
      "- {name: s, model: m, policy: megatron, gpus: [8, 16], batch: {global: 16, sequence: 4}, "
      "published: [2 s, 1 s]}\n");
  ASSERT_EQ(table.figures.size(), 2u);
  EXPECT_EQ(table.figures[1].name, "s-16");
  EXPECT_EQ(table.figures[1].iteration->gpus, 16);
  EXPECT_DOUBLE_EQ(*table.figures[1].published, 1);
}

const std::string machine =
    "machines: {m: {gpus_per_node: 8, adapters: fast, topology: t, set: [a=1]}}\nmachine: m\n"
    "policies: {d: {policy: deepep-normal, set: [c=3], between_nodes: {fast: 41 GB/s, slow: 9 "
    "GB/s}, merged: [sms=16]}}\n"
    "common: {model: x, policy: d, batch: {global: 16, sequence: 4}}\n";

// 16 GPUs are two nodes; groups of 8 x 2 span them, and groups of 8 do not.
TEST(IterationRows, ConditionsOfAPolicyFollowFromTheRow) {
  const PaperTable table = rows_table(
      "- {name: near, gpus: 16, parallel: {ep: 8}}\n"
      "- {name: far, gpus: 16, parallel: {ep: 8, etp: 2}}\n"
      "- {name: merged, gpus: 8, parallel: {ep: 8}, pipeline: combined-1f1b}\n",
      machine);
  EXPECT_THAT(changes_of(table, "near"), ElementsAre("a=1", "topology.nodes=2", "c=3"));
  EXPECT_THAT(changes_of(table, "far"), ElementsAre("a=1", "topology.nodes=2",
                                                    "topology.node.nics.bandwidth=41 GB/s", "c=3"));
  EXPECT_THAT(changes_of(table, "merged"), ElementsAre("a=1", "topology.nodes=1", "sms=16", "c=3"));
  EXPECT_EQ(table.variants[table.figures[0].variant].policy, "deepep-normal");
}

std::string mistakes_in(const std::string& rows, const std::string& more = "") {
  std::string text;
  try {
    rows_table(rows, more);
  } catch (const Error& e) {
    for (const Diagnostic& d : e.diagnostics()) text += d.str() + "\n";
  }
  return text;
}

TEST(IterationRows, TellTheirMistakesWithTheirLines) {
  EXPECT_THAT(mistakes_in("- " + plain + "2}\n"), HasSubstr("rows.yaml:4:"));
  EXPECT_THAT(mistakes_in("- " + plain + "2}\n"), HasSubstr("needs a unit"));
  EXPECT_THAT(mistakes_in("- " + plain + "40 %}\n"), HasSubstr("needs the table's 'peak'"));
  EXPECT_THAT(mistakes_in("- {name: b, like: c}\n"), HasSubstr("no row 'c' before this one"));
  EXPECT_THAT(mistakes_in("- {name: b, gpus: 8, policy: megatron, model: x}\n"),
              HasSubstr("a row needs 'batch.global'"));
  EXPECT_THAT(mistakes_in("- " + plain + "2 s, turns: {1G: 2 s}}\n"), HasSubstr("1G"));
  EXPECT_THAT(
      mistakes_in("- " + plain + "2 s}\n", "machine: m\nmachines: {n: {gpus_per_node: 8}}\n"),
      HasSubstr("machine"));
  EXPECT_THAT(mistakes_in("- " + plain + "2 s}\n", "gains: [[a, b]]\n"), HasSubstr("'b'"));
}

TEST(IterationRows, PassesOfServingHaveATimeAndNoTrainingBatch) {
  const std::string pass =
      "{name: a, model: deepseek-v3, policy: deepep-low-latency, topology: h100-rail, gpus: 8, "
      "parallel: {ep: 8}, serving: {kv: fp8, batch: {context: 4096, sequences: 32}}, published: ";
  const PaperTable table =
      rows_table("- " + pass + "18 ms}\n- {name: b, like: a, serving: {batch: {sequences: 64}}}\n");
  EXPECT_TRUE(table.iterations);
  EXPECT_TRUE(table.serving);
  EXPECT_DOUBLE_EQ(*table.figures[0].published, 0.018);
  EXPECT_EQ(flag_of(table, "b", "serving.batch.sequences"), "64");
  EXPECT_EQ(flag_of(table, "b", "serving.batch.context"), "4096");
  EXPECT_EQ(flag_of(table, "b", "serving.kv"), "fp8");
  EXPECT_THAT(mistakes_in("- " + pass + "900 tokens/s}\n"),
              HasSubstr("a pass of serving needs a time, not a rate"));
  EXPECT_FALSE(rows_table("- " + plain + "2 s}\n").serving);
}

TEST(IterationRows, FewerMicrobatchesShowWhatEachFurtherOneTakes) {
  const auto fewer = fewer_microbatches(8, 4, 128);
  ASSERT_TRUE(fewer);
  EXPECT_EQ(fewer->first, 24);
  EXPECT_EQ(fewer->second, 32);
  EXPECT_EQ(fewer_microbatches(1, 1, 1000)->first, 16);
  EXPECT_EQ(fewer_microbatches(1, 1, 1000)->second, 24);
  EXPECT_FALSE(fewer_microbatches(8, 4, 40));  // hardly longer
  EXPECT_TRUE(fewer_microbatches(8, 4, 41));
}

TEST(IterationRows, FurtherMicrobatchesTakeWhatTheLastOnesTook) {
  const SimulatedIteration whole =
      extended(iteration_of(3, 2, 0, {1, 2}), iteration_of(5, 4, 1, {2, 2.5}), 2);
  EXPECT_DOUBLE_EQ(whole.times.iteration.value, 9);
  EXPECT_DOUBLE_EQ(whole.times.of(IterationPart::experts).value, 8);
  EXPECT_DOUBLE_EQ(whole.times.overlapped.value, 3);
  EXPECT_DOUBLE_EQ(whole.stage_turns[0].of(TurnPart::forward).value, 4);
  EXPECT_DOUBLE_EQ(whole.stage_turns[1].of(TurnPart::forward).value, 3.5);
}

TEST(IterationRows, TurnsAreOfAStageThatThePipelineHas) {
  const PaperTable table = rows_table(
      "- " + plain + "2 s, synth: {experts: 8, top_k: 2, tokens: 1024}, turns_of_stage: 1}\n");
  try {
    predict_iterations({table}, {2});
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("rows: a: 'turns_of_stage' is 1, and the pipeline has 1"));
  }
}

std::vector<PaperTable> shipped_rows(bool serving) {
  std::vector<PaperTable> tables = shipped_paper_tables({});
  std::erase_if(tables, [&](const PaperTable& t) { return !t.iterations || t.serving != serving; });
  return tables;
}
std::vector<PaperTable> shipped_iterations() { return shipped_rows(false); }

PaperTable shipped(const std::string& name) { return shipped_paper_tables({name}).at(0); }

TEST(ShippedIterations, AreScenarios) {
  std::size_t rows = 0;
  for (const PaperTable& table : shipped_iterations()) {
    for (const PaperFigure& figure : table.figures) {
      const PaperVariant& variant = table.variants[figure.variant];
      std::vector<Override> flags = table.settings[figure.setting].flags;
      flags.insert(flags.end(), variant.flags.begin(), variant.flags.end());
      flags.push_back({"policy", variant.policy, ""});
      EXPECT_TRUE(read_scenario("", flags).iteration) << table.name << "/" << figure.name;
      ++rows;
    }
  }
  EXPECT_GE(rows, 134u);
}

TEST(ShippedServing, RowsAreScenarios) {
  std::size_t rows = 0;
  for (const PaperTable& table : shipped_rows(true)) {
    for (const PaperFigure& figure : table.figures) {
      const PaperVariant& variant = table.variants[figure.variant];
      std::vector<Override> flags = table.settings[figure.setting].flags;
      flags.insert(flags.end(), variant.flags.begin(), variant.flags.end());
      flags.push_back({"policy", variant.policy, ""});
      const auto iteration = read_scenario("", flags).iteration;
      ASSERT_TRUE(iteration) << table.name << "/" << figure.name;
      EXPECT_TRUE(iteration->serving) << table.name << "/" << figure.name;
      EXPECT_TRUE(figure.published) << table.name << "/" << figure.name;
      ++rows;
    }
  }
  EXPECT_GE(rows, 60u);
}

TEST(ShippedIterations, KeptErrorsAreOfTheirRows) {
  for (const bool serving : {false, true}) {
    const std::string file =
        fmt::format("{}/papers/{}-state.json", MOESIM_ROOT, serving ? "serving" : "iterations");
    std::set<std::string> kept, rows;
    for (const auto& [name, error] : read_papers_state(file, read_file(file)).absolute) {
      kept.insert(name);
    }
    for (const PaperTable& table : shipped_rows(serving)) {
      for (const PaperFigure& figure : table.figures) {
        const bool printed = figure.published || figure.iteration->rate;
        if (printed && figure.mark().empty()) rows.insert(table.name + "/" + figure.name);
      }
    }
    EXPECT_EQ(kept, rows);
  }
}

TEST(ShippedIterations, StateOnlyWhatDiffersFromTheirSoftware) {
  const PaperTable hybridep = shipped("bridge-overlap"), folding = shipped("folding-layouts");
  EXPECT_THAT(changes_of(hybridep, "overlap"), Contains("topology.node.nics.bandwidth=43.5 GB/s"));
  EXPECT_THAT(changes_of(hybridep, "overlap"), Contains("policy.dispatch.sms=16"));
  EXPECT_THAT(changes_of(hybridep, "no-overlap"), Not(Contains("policy.dispatch.sms=16")));
  EXPECT_EQ(flag_of(hybridep, "overlap", "software"), "megatron-bridge");
  EXPECT_EQ(flag_of(hybridep, "overlap", "host.graphs"), R"(["moe_router","moe_preprocess"])");
  const std::string nccl = "topology.node.nics.bandwidth=41 GB/s";
  EXPECT_THAT(changes_of(folding, "qwen2-tp-ep-dp"), Contains(nccl));
  EXPECT_THAT(changes_of(folding, "qwen2-fsdp-ep"), Not(Contains(nccl)));  // only rings
  EXPECT_EQ(flag_of(shipped("deepseek-v3-dualpipe"), "dualpipe", "software"), "deepseek");
  EXPECT_THAT(changes_of(shipped("simumax-b200"), "ep8-4"),
              Contains("topology.node.gpu=b200-training"));
  EXPECT_EQ(flag_of(shipped("bridge-overlap-nccl"), "overlap", "host.graphs"), "");
  EXPECT_EQ(flag_of(folding, "mixtral-fsdp", "software"), "");  // the default
}

TEST(ShippedIterations, SomeOfTheirRowsCanBeAskedFor) {
  const auto tables = shipped_paper_tables({"simumax-b200/ep8-*", "megascale/megatron-240"});
  ASSERT_EQ(tables.size(), 2u);
  EXPECT_EQ(tables[0].figures.size(), 1u);
  EXPECT_EQ(tables[1].figures.size(), 3u);
  EXPECT_THROW(shipped_paper_tables({"simumax-b200/ep9*"}), Error);
}

}  // namespace
}  // namespace moesim
