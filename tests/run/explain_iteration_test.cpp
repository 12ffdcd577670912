// SPDX-License-Identifier: Apache-2.0
// An explained iteration adds up, and is the one that the comparison runs.
#include "sim/run/explain_iteration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/run/explain_case.h"
#include "sim/run/simulate.h"
#include "sim/run/whatif.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

Scenario small_iteration(const Override& more = {"parallel", "{pp: 2, ep: 4}", "g"}) {
  return read_scenario("", {{"topology", "h100-rail", "t"},
                            {"model", "tiny-moe", "m"},
                            {"trace", "tiny-moe-train", "r"},
                            {"policy", "alltoall", "p"},
                            more,
                            {"batch", "{global: 16, micro: 1, sequence: 128}", "b"},
                            {"set", "topology.nodes=1", "n"}});
}

TEST(ExplainIteration, IsTheIterationThatTheComparisonRuns) {
  const Scenario scenario = small_iteration();
  const Inputs inputs = open_inputs(scenario);
  const ExplainedIteration e = explain_iteration(scenario, inputs, true);
  const RunMetrics m =
      simulate(scenario, inputs, {.workers = 1, .bounds = true, .elasticities = true})
          .cases.at(0)
          .metrics;
  EXPECT_EQ(e.explanation.times, m.times());
  EXPECT_EQ(e.explanation.sums, m.path);
  EXPECT_EQ(e.explanation.bounds, *m.bounds);
  EXPECT_EQ(e.explanation.elasticities, m.elasticities);
  EXPECT_GT(m.elasticities.size(), 8u);
}

TEST(ExplainIteration, IsThePassOfEachPolicyAsItsOwnSettingsHaveIt) {
  for (const char* policy : {"deepep-normal", "deepep-low-latency", "megatron", "eplb"}) {
    SCOPED_TRACE(policy);
    const Scenario scenario = parse_scenario(
        std::string("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: ") +
            policy + "\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1, scenario:" + policy +
            ".serving.graphs=false]\nsteps: 3:4\n"
            "serving: {batch: {context: 500, sequences: 2}}\n",
        "pass.yaml", {});
    const Inputs inputs = open_inputs(scenario);
    const RunMetrics m = simulate(scenario, inputs, {.workers = 1}).cases.at(0).metrics;
    EXPECT_EQ(explain_iteration(scenario, inputs, false).explanation.times, m.times());
  }
}

TEST(ExplainIteration, RanksAddUpToTheMeanAndTheFullestIsAmongThem) {
  const Scenario scenario = small_iteration();
  const Inputs inputs = open_inputs(scenario);
  const auto [e, plan, routing, fidelity] = explain_iteration(scenario, inputs, false);
  EXPECT_EQ(routing, "recorded");
  ASSERT_EQ(e.ranks.size(), 8u);
  Seconds bubble, path;
  Bytes fullest;
  for (const RankReport& rank : e.ranks) {
    Seconds sum;
    for (const Seconds part : rank.times.parts) sum += part;
    EXPECT_NEAR(sum / e.times.iteration, 1, 1e-9) << rank.name;
    EXPECT_EQ(rank.stage, rank.gpu.value / 4);
    bubble += rank.times.of(IterationPart::bubble) * (1.0 / 8);
    path += e.sums.gpus[rank.gpu.index()];
    fullest = std::max(fullest, rank.memory.peak);
    Bytes parts;
    for (const NamedBytes& part : rank.memory.parts) parts += part.bytes;
    EXPECT_EQ(parts, rank.memory.peak);
  }
  EXPECT_NEAR(bubble / e.times.of(IterationPart::bubble), 1, 1e-9);
  EXPECT_NEAR(path / e.times.iteration, 1, 1e-9);
  const auto m = simulate(scenario, inputs, {}).cases.at(0).metrics;
  EXPECT_EQ(fullest, m.iteration->fullest.peak);
}

TEST(ExplainIteration, SaysAllInTextAndJson) {
  const Scenario scenario = small_iteration();
  const Inputs inputs = open_inputs(scenario);
  const ExplainedIteration e = explain_iteration(scenario, inputs, true);
  const std::string text = iteration_explanation_text(e.explanation).text();
  for (const char* table : {"stage", "bubble", "the critical path", "no exchange", "resource"}) {
    EXPECT_THAT(text, testing::HasSubstr(table));
  }
  const std::string document = explain_iteration_document(scenario, inputs, e, "test");
  EXPECT_TRUE(document.starts_with("{\n \"format\": "));
  const auto json = nlohmann::json::parse(document);
  EXPECT_EQ(json["format"], "moesim-iteration-explanation");
  EXPECT_EQ(json["format_version"], 1);
  EXPECT_EQ(json["policy"]["name"], "alltoall");
  EXPECT_EQ(json["topology"]["name"], "h100-rail");
  EXPECT_EQ(json["software"]["name"], "megatron-core");
  EXPECT_EQ(json["gpus"], 8);
  EXPECT_EQ(json["ranks"].size(), 8u);
  const auto& segments = json["critical_path"]["segments"];
  EXPECT_EQ(segments.size(), e.explanation.path.size());
  EXPECT_EQ(segments.back()["end_s"], json["iteration_s"]);
}

TEST(ExplainIteration, HasTurnsOfSeveralStagesOnly) {
  const auto turns = [](const std::string& parallel) {
    Scenario scenario = small_iteration({"parallel", parallel, "g"});
    return explain_iteration(scenario, open_inputs(scenario), false).explanation.turns;
  };
  EXPECT_FALSE(turns("{pp: 1, ep: 8}"));
  EXPECT_TRUE(turns("{pp: 2, ep: 4}"));
}

TEST(ExplainIteration, ShowsCopiesToAStash) {
  Scenario scenario = small_iteration();
  scenario.iteration->stash.emplace();
  scenario.iteration->stash->rank_capacity = scenario.iteration->stash->factor = 8;
  Inputs inputs = open_inputs(scenario);
  GpuModel slow = *inputs.clusters[0].gpus[0];
  slow.memory_bandwidth = BytesPerSecond(1e10);
  inputs.clusters[0].gpus.assign(8, std::make_shared<const GpuModel>(std::move(slow)));
  const ExplainedIteration e = explain_iteration(scenario, inputs, false);
  const PathPart& moved = e.explanation.sums.of(PathKind::moe_other);
  EXPECT_GT(moved.by.at("stash").value, 0);
  const ExplainedCase c = explain_case(scenario, inputs, 0, {Fidelity::analytic});
  const auto shows = [&](const std::string& label) {
    return std::ranges::any_of(c.explanation.kernels,
                               [&](const auto& kernel) { return kernel.name == label; });
  };
  EXPECT_TRUE(shows("stash"));
  EXPECT_TRUE(shows("stash-grad"));
}

TEST(WhatIf, ChangesIterationsToo) {
  const Scenario scenario = small_iteration();
  const Inputs before = open_inputs(scenario);
  const auto run = [&](const WhatIf& what) {
    return simulate_whatif(scenario, before, open_changed_inputs(scenario, what), 1).at(0);
  };
  const WhatIfCase slow = run({.slow = {"gpu:3=0.2"}});
  EXPECT_GT(slow.after.time, slow.before.time);
  EXPECT_EQ(slow.name[2], "recorded");
  const WhatIfCase same = run({.scale = {"nvlink.bandwidth=1"}});
  EXPECT_EQ(same.after.time, same.before.time);
  EXPECT_THROW(run({.fail = {"gpu:3"}}), Error);
}

TEST(ExplainLayer, OfAnIterationIsThatOfItsFirstMicrobatchOnTheGpusOfItsStage) {
  const Scenario scenario = small_iteration();
  const Inputs inputs = open_inputs(scenario);
  for (const int layer : {0, 3}) {  // of the first and the last stage
    const ExplainedCase c = explain_case(scenario, inputs, layer, {Fidelity::analytic});
    EXPECT_EQ(c.layer, layer);
    ASSERT_TRUE(c.stage);
    EXPECT_EQ(c.topology(inputs.clusters[0]).gpu_count(), 4);
    EXPECT_EQ(c.tokens_per_rank, 128);
    EXPECT_THAT(explain_header(scenario, inputs, c, "1"),
                testing::HasSubstr("of the first microbatch of iteration 0, 128 tokens per rank"));
  }
}

/// Attention and experts of layers fill the iteration's own parts of the mean GPU.
TEST(IterationLayers, AddUpToThePartsOfTheMeanGpu) {
  const Scenario scenario = small_iteration();
  const Inputs inputs = open_inputs(scenario);
  const RunMetrics m = simulate(scenario, inputs, {.workers = 1, .layers = true}).cases[0].metrics;
  ASSERT_EQ(m.layers.size(), 4u);
  Seconds compute;
  for (const auto& [number, layer] : m.layers) {
    compute += layer.compute * 0.5;  // a stage is half of the GPUs
    EXPECT_GT(layer.forward.value, 0);
    EXPECT_GT(layer.communication.value, 0);
    EXPECT_GE(layer.load_max_over_mean.value(), 1);
    EXPECT_LT(layer.load_max_over_mean.value(), 4);
  }
  const Seconds parts = m.times().of(IterationPart::attention) +
                        m.times().of(IterationPart::experts) +
                        m.times().of(IterationPart::moe_other);
  EXPECT_NEAR(compute / parts, 1, 1e-9);
  EXPECT_TRUE(simulate(scenario, inputs, {.workers = 1}).cases[0].metrics.layers.empty());
}

}  // namespace
}  // namespace moesim
