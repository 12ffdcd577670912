// SPDX-License-Identifier: Apache-2.0
// Rows of small iterations, and plans that were measured, against runs of their scenarios.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/temporary_folder.h"
#include "sim/evidence/paper_case.h"
#include "sim/evidence/predict_iterations.h"
#include "sim/evidence/validate_runs.h"
#include "sim/run/simulate.h"
#include "sim/scenario/policy_planner.h"
#include "tests/error_of.h"
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

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// With a folder of traces the recorded routing, else balanced tokens.
TEST(PredictedRows, HaveTheirRecordedRoutingIfItIsThere) {
  const std::string text =
      "- {name: a, model: tiny-moe, policy: alltoall, topology: h100-rail, gpus: 8, routing: "
      "balanced, batch: {global: 16, micro: 1, sequence: 128}, set: [topology.nodes=1], parallel: "
      "{ep: 8}, recorded: ";
  const PaperTable table = rows_table(text + "tiny-moe-train, published: 2 s}\n");
  const auto row = [&](const PaperTable& of, const std::string& traces) {
    return predict_iterations({of}, {.workers = 1, .traces = traces}).at({0, 0});
  };
  const PredictedFigure balanced = row(table, ""), recorded = row(table, MOESIM_ROOT "/traces");
  ASSERT_TRUE(balanced.there() && recorded.there()) << balanced.why << recorded.why;
  EXPECT_TRUE(balanced.iteration->lacks_routing);
  EXPECT_FALSE(recorded.iteration->lacks_routing);
  EXPECT_NE(recorded.inputs, balanced.inputs);
  const PaperTable same = rows_table(
      replaced(text, "routing: balanced", "trace: " MOESIM_ROOT "/traces/tiny-moe-train") +
      "\"\", published: 2 s}\n");
  EXPECT_EQ(row(same, "").inputs, recorded.inputs);
  EXPECT_EQ(row(same, "").value, recorded.value);
  EXPECT_TRUE(row(rows_table(text + "others, published: 2 s}\n"), MOESIM_ROOT "/traces")
                  .iteration->lacks_routing);
  PaperTable plain = table;
  plain.figures[0].iteration->recorded.clear();
  EXPECT_FALSE(row(plain, "").iteration->lacks_routing);
  EXPECT_EQ(row(plain, "").value, balanced.value);
}

TEST(PredictedRows, HaveAHashOfAllThatTheyAreMadeOf) {
  const PaperTable table = small_row(16, "parallel: {ep: 8}, published: 2 s");
  const PaperSetting& setting = table.settings.at(0);
  const auto hash = [&](const std::vector<Override>& more) {
    std::vector<Override> flags = setting.flags;
    flags.insert(flags.end(), more.begin(), more.end());
    const Scenario scenario = scenario_of(setting, flags, table.variants.at(0));
    return hash_of_inputs(scenario, open_inputs(scenario));
  };
  const std::string plain = hash({});
  EXPECT_EQ(hash({}), plain);
  for (const Override& change : std::vector<Override>{{"zero", "2", ""},
                                                      {"precision", "fp8", ""},
                                                      {"transport", "ideal", ""},
                                                      {"set", "transport.start_up=9 us", ""},
                                                      {"software", "torchtitan", ""},
                                                      {"set", "topology.nodes=2", ""},
                                                      {"set", "model.top_k=1", ""}}) {
    EXPECT_NE(hash({change}), plain) << change.str();
  }
}

/// What was measured of two policies on a node of 8 GPUs: each of `steps` steps took 1 s.
std::vector<MeasuredRun> measured_runs(int steps, const std::string& keys,
                                       const SimulatedOn& on = {}) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/measured.json";
  std::string one, all;
  for (int i = 0; i < steps; ++i) {
    one += std::string(i > 0 ? "," : "") +
           R"({"plan_xxh3": "?", "repeats_s": [1], "ops": [], "waiting_s": 0})";
  }
  for (const char* const policy : {"alltoall", "dedup"}) {
    all += (all.empty() ? "" : ",") + std::string(R"({"policy": ")") + policy +
           R"(", "wrong": 0, "measured_steps": [)" + one + "]}";
  }
  write_file(path,
             R"({"format": "moesim-hw-result", "format_version": 2, "moesim": "1", "date": "d",
    "description": "x", "ranks": 8, "hosts": 1, "warmup": 0, "repeats": 1,
    "scenario": {"topology": "h100-rail", "model": "tiny-moe", "trace": "tiny-moe-train",
    "policy": ["alltoall", "dedup"], "layers": "recorded", "tokens_per_rank": 16, "ep": 4,
    "set": ["topology.nodes=1"])" +
                 keys + R"(}, "cases": [)" + all + "]}");
  std::vector<MeasuredRun> runs;
  runs.push_back(recall(path, on));
  MeasuredRun& run = runs.back();
  for (std::size_t p = 0; p < run.measured.cases.size(); ++p) {  // as this program plans them
    PolicyPlanner planner(run.scenario, run.planned, run.planned.clusters[0],
                          run.planned.systems[p]);
    for (int i = 0; i < std::min(steps, planner.count()); ++i) {
      run.measured.cases[p].steps[static_cast<std::size_t>(i)].plan =
          hash_of_plan(planner.plan(i).plan);
    }
  }
  return runs;
}

TEST(MeasuredPlans, AreSimulatedOnTheirClusterOrOneOfOtherRates) {
  const std::string steps = R"(, "steps": "3:5")";
  const Override slow = parse_override("topology.node.nvlink.bandwidth=10 GB/s");
  for (const bool changed : {false, true}) {
    const std::vector<Override> changes(changed ? 1 : 0, slow);
    const auto runs = measured_runs(2, steps, {{}, changes});
    Scenario scenario = runs[0].scenario;
    EXPECT_EQ(scenario.steps.first, 3);
    scenario.set.insert(scenario.set.end(), changes.begin(), changes.end());
    const auto cases = simulate(scenario, open_inputs(scenario), {.workers = 0}).cases;
    const ResultValidation result = validate_runs(runs, 1).at(0);
    ASSERT_EQ(result.policies.size(), 2U);
    for (const PolicyValidation& policy : result.policies) {
      const CaseResult& simulated = cases[policy.policy == "alltoall" ? 0 : 1];
      EXPECT_DOUBLE_EQ(policy.simulated.value, simulated.metrics.mean_step().value);
      EXPECT_EQ(policy.measured, Seconds(1));
      double ops = 0;
      for (const auto& [kind, time] : policy.simulated_ops.kinds) ops += time.value;
      EXPECT_GT(ops, policy.simulated.value / 2);
      EXPECT_LT(ops, policy.simulated.value * 2);
    }
    EXPECT_EQ(result.topology, "h100-rail");
    EXPECT_EQ(result.fidelity, "port");
    EXPECT_THAT(result.setting,
                ::testing::HasSubstr("model tiny-moe: hidden 128, expert ffn 128, 4 layers, 2 "
                                     "steps of 16 tokens per rank, forward and backward"));
  }
}

TEST(MeasuredPlans, OfAllStepsAreAsManyAsWereMeasured) {
  const auto runs = measured_runs(3, R"(, "pass": "forward")");
  EXPECT_EQ(runs[0].scenario.steps.first, 0);
  EXPECT_EQ(runs[0].scenario.steps.last, 3);
  EXPECT_THAT(validate_runs(runs, 1).at(0).setting,
              ::testing::HasSubstr("3 steps of 16 tokens per rank, forward only"));
  EXPECT_EQ(measured_runs(1, R"(, "warmup": 2)")[0].scenario.steps.last, 3);
}

TEST(MeasuredPlans, AreThoseOfTheirPoliciesOnAsManyGpus) {
  const std::string steps = R"(, "steps": "3")";
  EXPECT_THAT(error_of([&] {
                measured_runs(1, steps, {"h100-rail", {}});
              }),
              ::testing::HasSubstr("8 ranks were measured, h100-rail has 32 GPUs"));
  auto runs = measured_runs(1, steps);
  const auto swap = [&] { std::swap(runs[0].measured.cases[0], runs[0].measured.cases[1]); };
  swap();
  EXPECT_THAT(error_of([&] { validate_runs(runs, 1); }),
              ::testing::HasSubstr("'dedup' was measured in the place of 'alltoall'"));
  swap();
  runs[0].measured.cases[0].unsuitable = "too few GPUs";
  runs.push_back(std::move(measured_runs(1, steps)[0]));
  const auto results = validate_runs(runs, 1);
  ASSERT_EQ(results.size(), 2U);
  ASSERT_EQ(results[0].policies.size(), 1U);
  EXPECT_EQ(results[0].policies[0].policy, "dedup");
  EXPECT_EQ(results[1].policies.size(), 2U);
  runs[0].measured.cases.pop_back();
  EXPECT_THAT(error_of([&] { validate_runs(runs, 1); }),
              ::testing::HasSubstr("1 case for 2 policies"));
}

}  // namespace
}  // namespace moesim
