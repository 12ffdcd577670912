// SPDX-License-Identifier: Apache-2.0
// Cases computed by workers, several fidelities from one plan, are those of a loop in this process.
#include "sim/run/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <deque>
#include <nlohmann/json.hpp>

#include "sim/base/wire.h"
#include "sim/planner/iteration/planned_step.h"
#include "sim/planner/iteration/planner.h"
#include "sim/report/explain_text.h"
#include "sim/run/backends.h"
#include "sim/run/explain_case.h"
#include "sim/run/result_file.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

const Override all_fidelities{"fidelity", "[port, flow, simgrid, analytic]", "f"};

/// The steps of a case, planned only for it, without memory and notes.
RunMetrics by_hand(const Scenario& scenario, const Inputs& inputs, const SystemSpec& system,
                   Fidelity fidelity) {
  const ClusterInput& cluster = inputs.clusters[0];
  Planner planner(system, cluster.topology, inputs.model, inputs.trace,
                  inputs.planner_options(scenario, cluster));
  RunMetrics metrics;
  RoutingChange change;
  for (std::size_t i = 0; i < cluster.batches.batches.size(); ++i) {
    const PlannedStep planned =
        planner.plan(cluster.batches.batches[i], cluster.first_step + static_cast<int>(i));
    const auto backend = make_backend(fidelity, scenario.p2p_order, cluster);
    const PricedPlan priced(planned.plan, cluster.topology);
    const Timeline timeline = backend->run(priced);
    add_step(metrics, priced, timeline);
    const auto path = critical_path(planned.plan, timeline);
    metrics.path.add(path_sums(path, priced, cluster.gpus));
    metrics.planning += planned.planning();
    metrics.replans += planned.replanned() ? 1 : 0;
    metrics.tokens = planned.tokens;
    change.add(planned.change);
  }
  metrics.loss = planner.layer_planner().loss(change);
  return metrics;
}

TEST(Simulate, SeveralFidelitiesFromOnePlanAreEachAsAlone) {
  const Scenario scenario =
      scenario_of("[alltoall, eplb]", {all_fidelities,
                                       {"set", "policy:eplb.placement.planning_time=1 ms", "p"},
                                       {"set", "policy:eplb.placement.first=1", "f"},
                                       {"set", "policy:eplb.placement.interval=1", "i"}});
  const Inputs inputs = open_inputs(scenario);
  const std::vector<CaseResult> cases = simulate(scenario, inputs, {.workers = 2}).cases;
  ASSERT_EQ(cases.size(), 8u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const SystemSpec& system = inputs.systems[i % 2];
    EXPECT_EQ(cases[i].name.policy, system.name);
    EXPECT_EQ(cases[i].name.fidelity, fidelity_names[i / 2]);
    EXPECT_EQ(cases[i].topology, &inputs.clusters[0].topology);
    EXPECT_EQ(cases[i].twin.fixed, i % 2 == 0) << "eplb plans";
    EXPECT_EQ(cases[i].metrics.planning.value > 0, i % 2 == 1);
    RunMetrics expected = by_hand(scenario, inputs, system, static_cast<Fidelity>(i / 2));
    const RunMetrics& metrics = cases[i].metrics;
    EXPECT_GT(metrics.peak_memory.value, 0);
    EXPECT_GT(metrics.gpu_memory.value, 0);
    expected.peak_memory = metrics.peak_memory;
    expected.model_memory = metrics.model_memory;
    expected.gpu_memory = metrics.gpu_memory;
    expected.notes = metrics.notes;
    EXPECT_EQ(metrics, expected) << cases[i].name.policy << " " << cases[i].name.fidelity;
  }
}

TEST(Simulate, DoesNotDependOnTheNumberOfWorkers) {
  const Scenario scenario = scenario_of("[alltoall, eplb, llep]", {all_fidelities});
  const Inputs inputs = open_inputs(scenario);
  const std::vector<CaseResult> one = simulate(scenario, inputs, {.workers = 1}).cases;
  const std::vector<CaseResult> four = simulate(scenario, inputs, {.workers = 4}).cases;
  ASSERT_EQ(one.size(), four.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    EXPECT_EQ(one[i].metrics, four[i].metrics);
    EXPECT_EQ(one[i].name.fidelity, four[i].name.fidelity);
  }
}

TEST(Simulate, TellsAtEveryFidelityWhyAPolicyCannotRun) {
  const Scenario scenario =
      scenario_of("[alltoall, lazarus]", {{"fidelity", "[port, analytic]", "f"},
                                          {"ep", "64", "e"},
                                          {"set", "topology.nodes=8", "n"},
                                          {"steps", "0", "s"},
                                          {"repeat", "2", "r"}});
  const Inputs inputs = open_inputs(scenario);
  const std::vector<CaseResult> cases = simulate(scenario, inputs, {.workers = 2}).cases;
  ASSERT_EQ(cases.size(), 4u);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(cases[i].ran(), i % 2 == 1);
    if (cases[i].ran()) continue;
    EXPECT_THAT(cases[i].unsuitable, testing::HasSubstr("leaves GPUs without an expert"));
  }
}

TEST(ExplainCase, IsAValueThatSurvivesAPipe) {
  const Scenario scenario = scenario_of("hiermoe-hd");
  const Inputs inputs = open_inputs(scenario);
  const ExplainedCase c =
      explain_case(scenario, inputs, inputs.layers.front(), {Fidelity::port, Fidelity::analytic});
  const Topology& topology = inputs.clusters[0].topology;
  const auto again = from_bytes<Explanation>(to_bytes(c.explanation));
  EXPECT_EQ(explain_text(again, topology).text(), explain_text(c.explanation, topology).text());
  EXPECT_FALSE(again.phases.empty());
}

TEST(TimelineRanks, AreTheFirstOfStagesThatAreEvenlySpaced) {
  const auto of = [](int stages, int each) {
    std::vector<int> stage_of, ranks;
    for (int g = 0; g < stages * each; ++g) stage_of.push_back(g / each);
    for (const GpuId gpu : chosen_ranks({}, stages * each, stage_of)) ranks.push_back(gpu.value);
    return ranks;
  };
  EXPECT_THAT(of(1, 4), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(of(2, 8), testing::ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
  EXPECT_THAT(of(3, 8), testing::ElementsAre(0, 1, 2, 8, 9, 10, 16, 17));
  EXPECT_THAT(of(16, 10), testing::ElementsAre(0, 20, 40, 60, 80, 100, 120, 150));
}

TEST(Simulate, IsDoneOnceTheLastStepIs) {
  const Scenario scenario = scenario_of("alltoall");
  const Inputs inputs = open_inputs(scenario);
  std::vector<double> parts;
  ComparisonOptions options;
  options.heard.progress = [&](double done) { parts.push_back(done); };
  simulate(scenario, inputs, options);
  EXPECT_TRUE(std::ranges::is_sorted(parts));
  EXPECT_EQ(parts.back(), 1);
}

TEST(Simulate, NotesThatAllLayersOfTheModelWouldNotFit) {
  const Scenario scenario =
      scenario_of("alltoall", {{"model", "gpt-oss-20b", "m"}, {"steps", "3", "s"}});
  Inputs inputs = open_inputs(scenario);
  const auto run = [&] { return simulate(scenario, inputs, {.workers = 0}).cases.at(0).metrics; };
  const RunMetrics fits = run();
  EXPECT_THAT(fits.notes, testing::IsEmpty());
  ASSERT_GT(fits.model_memory, fits.peak_memory);
  const auto notes_of_gpus_with = [&](Bytes memory) {
    GpuModel gpu = *inputs.clusters[0].gpus[0];
    gpu.memory = memory;
    inputs.clusters[0].gpus.assign(8, std::make_shared<const GpuModel>(std::move(gpu)));
    return run().notes;
  };
  EXPECT_THAT(notes_of_gpus_with(fits.model_memory), testing::IsEmpty());
  EXPECT_THAT(notes_of_gpus_with(fits.model_memory - Bytes(1)),
              testing::ElementsAre(testing::HasSubstr(
                  " of experts and activations with all MoE layers of the model; a GPU has ")));
}

/// All that a comparison may be asked for of one case, in these steps.
ComparisonResult all_of_steps(Scenario scenario, int first, int last) {
  scenario.steps = {first, last};
  static std::deque<Inputs> kept;  // results refer to their clusters
  kept.push_back(open_inputs(scenario));
  return simulate(
      scenario, kept.back(),
      {.workers = 0, .bounds = true, .elasticities = true, .layers = true, .least_times = true});
}

/// Of the steps `first` to `first` + 2: sums, the most, and what is only of the first.
void expect_sums(const Scenario& scenario, int first) {
  const ComparisonResult result = all_of_steps(scenario, first, first + 3);
  const RunMetrics all = result.cases.at(0).metrics;
  ASSERT_EQ(all.steps.size(), 3u);
  Seconds length, least;
  TimeBounds bounds;
  Bytes peak, model;
  for (int i = 0; i < 3; ++i) {
    const ComparisonResult alone = all_of_steps(scenario, first + i, first + i + 1);
    const RunMetrics& one = alone.cases.at(0).metrics;
    EXPECT_EQ(all.steps[static_cast<std::size_t>(i)], one.steps.at(0));
    EXPECT_EQ(all.tokens, one.tokens);
    length += one.path.length;
    least += *one.least;
    bounds.add(*one.bounds);
    peak = std::max(peak, one.peak_memory);
    model = std::max(model, one.model_memory);
    if (i > 0) continue;
    EXPECT_EQ(all.elasticities, one.elasticities);
    EXPECT_EQ(all.dedup, one.dedup);
    EXPECT_EQ(result.bounds.at(0).sums.bound, alone.bounds.at(0).sums.bound);
    if (all.iteration) {
      EXPECT_EQ(all.iteration->stage_turns, one.iteration->stage_turns);
    }
  }
  EXPECT_DOUBLE_EQ(all.path.length.value, length.value);
  EXPECT_DOUBLE_EQ(all.least->value, least.value);
  EXPECT_DOUBLE_EQ(all.bounds->port.value, bounds.port.value);
  EXPECT_DOUBLE_EQ(all.bounds->balance.value, bounds.balance.value);
  EXPECT_DOUBLE_EQ(all.bounds->no_communication.value, bounds.no_communication.value);
  EXPECT_EQ(all.peak_memory, peak);
  EXPECT_EQ(all.model_memory, model);
}

TEST(Simulate, AddsUpStepsAndIterationsAndExplainsTheFirst) {
  expect_sums(scenario_of("alltoall"), 3);
  const Scenario iterations =
      read_scenario("", {{"topology", "h100-rail", "t"},
                         {"model", "tiny-moe", "m"},
                         {"trace", "tiny-moe-train", "r"},
                         {"policy", "alltoall", "p"},
                         {"parallel", "{pp: 2, ep: 4}", "g"},
                         {"batch", "{global: 16, micro: 1, sequence: 128}", "b"},
                         {"set", "topology.nodes=1", "n"}});
  expect_sums(iterations, 0);
  Bytes fullest;
  for (const int i : {0, 1}) {
    const auto one = all_of_steps(iterations, i, i + 1).cases.at(0).metrics.iteration;
    fullest = std::max(fullest, one->fullest.peak);
  }
  const IterationFigures both = *all_of_steps(iterations, 0, 2).cases.at(0).metrics.iteration;
  EXPECT_EQ(both.count, 2);
  EXPECT_EQ(both.ops, all_of_steps(iterations, 0, 1).cases.at(0).metrics.iteration->ops);
  EXPECT_EQ(both.fullest.peak, fullest);
}

TEST(Simulate, SaysOnceWhyNoCaseCanRunAndWhatMayHelp) {
  const Scenario scenario = scenario_of(
      "moonep", {{"fidelity", "[port, analytic]", "f"}, {"set", "topology.nodes=2", "n"}});
  const Inputs inputs = open_inputs(scenario);
  EXPECT_THAT([&] { simulate(scenario, inputs, {.workers = 0}); },
              testing::ThrowsMessage<Error>(
                  "error: moonep on h100-rail was not run: its ranks fetch experts over NVLink, an "
                  "EP group has 2 hosts\nhint: ep: 8 or less\nerror: no case of the comparison can "
                  "run\n"));
  ComparisonOptions options;
  options.may_run_none = true;
  const auto cases = simulate(scenario, inputs, options).cases;
  ASSERT_EQ(cases.size(), 2u);
  EXPECT_EQ(cases[1].hint, "ep: 8 or less");
}

TEST(Simulate, KeepsFinishedCasesAndTheSignalThatEndedIt) {
  const Scenario scenario = scenario_of("[alltoall, dedup]");
  const Inputs inputs = open_inputs(scenario);
  ComparisonOptions options;
  options.keep_finished = true;
  options.finished = [](const FinishedRun&) { ::raise(SIGTERM); };
  const ComparisonResult result = simulate(scenario, inputs, options);
  EXPECT_EQ(result.signal, SIGTERM);
  EXPECT_FALSE(result.cases.at(0).interrupted);
  EXPECT_TRUE(result.cases.at(1).interrupted);
  EXPECT_EQ(result.cases.at(1).unsuitable, interrupted_reason);
}

TEST(ResultDocument, SaysHowOftenGradientsAreSummedAndWhatIsMissing) {
  for (const auto& [accumulate, text] : {std::pair("never", "\"never\""), std::pair("2", "2")}) {
    const Scenario scenario = scenario_of("alltoall", {{"accumulate", accumulate, "a"}});
    const Inputs inputs = open_inputs(scenario);
    std::vector<CaseResult> cases = simulate(scenario, inputs, {}).cases;
    const auto whole = nlohmann::json::parse(result_json(scenario, inputs, cases, "1"));
    EXPECT_EQ(whole.at("accumulate").dump(), text);
    EXPECT_FALSE(whole.contains("software")) << "only of iterations";
    for (const auto& [key, value] :
         std::map<std::string, std::string>{{"format", "\"moesim-result\""},
                                            {"format_version", "2"},
                                            {"moesim", "\"1\""},
                                            {"step", "\"layers\""},
                                            {"repeat", "1"},
                                            {"pass", "\"forward+backward\""},
                                            {"layers", "[0,1,2,3]"},
                                            {"set", "[\"topology.nodes=1\"]"},
                                            {"warnings", "[]"}}) {
      EXPECT_EQ(whole.at(key).dump(), value) << key;
    }
    const auto& cluster = whole.at("clusters").at(0);
    EXPECT_EQ(cluster.at("gpus"), 8);
    EXPECT_EQ(cluster.at("hosts"), 1);
    EXPECT_EQ(cluster.at("ep"), 8);
    EXPECT_EQ(cluster.at("first_step"), 3);
    EXPECT_EQ(cluster.at("warmup_steps"), 0);
    EXPECT_EQ(cluster.at("steps"), 3);
    EXPECT_EQ(cluster.at("tokens_per_rank"), inputs.clusters[0].batches.tokens_per_rank);
    EXPECT_EQ(cluster.at("gpu_models").size(), 1U);
    EXPECT_FALSE(cluster.contains("unsuitable"));
    EXPECT_EQ(whole.at("topologies").at(0).at("name"), "h100-rail");
    EXPECT_EQ(whole.at("policies").at(0).at("name"), "alltoall");
    EXPECT_TRUE(whole.at("seeds").at("trace").is_number());
    EXPECT_FALSE(whole.contains("interrupted"));
    cases[0].interrupted = true;
    const auto part = nlohmann::json::parse(result_json(scenario, inputs, cases, "1"));
    EXPECT_EQ(part.at("interrupted").dump(), "{\"cases\":1,\"done\":0}");
  }
}

}  // namespace
}  // namespace moesim
