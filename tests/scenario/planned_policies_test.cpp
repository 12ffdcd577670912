// SPDX-License-Identifier: Apache-2.0
// What planners and hardware get of a scenario: how many microbatches differ, what a warm-up shows,
// what an execution holds in addition to its plan.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/scenario/can_execute.h"
#include "sim/scenario/executable_steps.h"
#include "sim/scenario/policy_planner.h"
#include "sim/scenario/proof.h"
#include "sim/scenario/replayed_layers.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// The shipped scenario of two stages of four GPUs with four microbatches, as small as can be.
Scenario small_iteration(const std::vector<Override>& more = {}) {
  std::vector<Override> flags = {{"batch.sequence", "4", "t"}};
  for (const char* const change : {"model.hidden=32", "model.expert_ffn=8", "model.dense_ffn=24",
                                   "model.shared_ffn=8", "model.attention.head_dim=8"}) {
    flags.push_back({"set", change, "t"});
  }
  flags.insert(flags.end(), more.begin(), more.end());
  return read_scenario(MOESIM_ROOT "/scenarios/iteration-hardware.yaml", flags);
}

/// "DISTINCT of MICROBATCHES, RECORDED recorded" of balanced routing.
std::string microbatches_of(const std::vector<Override>& more) {
  const Scenario scenario = small_iteration(more);
  const Inputs inputs = open_inputs(scenario);
  const PolicyPlanner steps(scenario, inputs, inputs.clusters[0], inputs.systems[0],
                            {.routing = RoutingSource::balanced});
  const Microbatches& all = steps.planner().microbatches();
  return fmt::format("{} of {}, {} recorded", all.distinct, steps.planner().shape().microbatches,
                     all.recorded.size());
}

TEST(BalancedMicrobatches, DifferUnlessAllRanksChooseAlike) {
  EXPECT_EQ(microbatches_of({}), "1 of 4, 1 recorded") << "ranks of an EP group take turns";
  EXPECT_EQ(microbatches_of({{"parallel.ep", "1", "t"}}), "4 of 4, 4 recorded");
  EXPECT_EQ(microbatches_of({{"parallel.ep", "1", "t"}, {"batch.global", "32", "t"}}),
            "4 of 8, 4 recorded")
      << "a microbatch is planned once";
  EXPECT_EQ(microbatches_of({{"parallel.ep", "1", "t"}, {"batch.global", "12", "t"}}),
            "3 of 3, 3 recorded");
}

TEST(BalancedMicrobatches, OfDenseModelsAreAlike) {
  const Scenario scenario = read_scenario("", {{"topology", "h100-rail", "t"},
                                               {"model", "llama-3-8b", "m"},
                                               {"set", "topology.nodes=1", "s"},
                                               {"set", "batch.global=32", "s"},
                                               {"set", "batch.sequence=64", "s"}});
  const Inputs inputs = open_inputs(scenario);
  const PolicyPlanner steps(scenario, inputs, inputs.clusters[0], inputs.systems[0]);
  const Microbatches& all = steps.planner().microbatches();
  EXPECT_EQ(steps.planner().shape().microbatches, 4);
  EXPECT_EQ(std::pair(all.distinct, all.recorded.size()), std::pair(1, std::size_t{1}));
}

TEST(SpecsOfIterations, AreOfTrainingOrOfServing) {
  const Spec trained = spec_of(small_iteration());
  EXPECT_EQ(std::pair(trained.state.gradient, trained.state.optimizer), std::pair(4, 12));
  EXPECT_TRUE(trained.optimizer && trained.backward);
  const Spec served =
      spec_of(parse_scenario("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
                             "policy: alltoall\nserving: {batch: {context: 9, sequences: 4}}\n",
                             "s.yaml", {}));
  EXPECT_EQ(std::pair(served.state.gradient, served.state.optimizer), std::pair(0, 0));
  EXPECT_FALSE(served.optimizer || served.backward);
}

TEST(SpecsOfIterations, HaveAllMicrobatchesUnlessFewerAreAskedFor) {
  const Scenario scenario = small_iteration();
  const Inputs inputs = open_inputs(scenario);
  const auto fewer = [&](bool asked) {
    const PolicyPlanner steps(scenario, inputs, inputs.clusters[0], inputs.systems[0],
                              {.fewer_microbatches = asked});
    return steps.planner().spec().fewer_microbatches;
  };
  EXPECT_FALSE(fewer(false));
  EXPECT_TRUE(fewer(true));
}

TEST(AskedIterations, AreOneAfterTheWarmUpOrThoseOfARange) {
  const auto asked = [](const std::vector<Override>& more) {
    const AskedSteps steps = asked_iterations(small_iteration(more));
    return std::pair(steps.first, steps.count);
  };
  EXPECT_EQ(asked({}), std::pair(0, 1));
  EXPECT_EQ(asked({{"warmup", "3", "t"}}), std::pair(3, 1));
  EXPECT_EQ(asked({{"steps", "2:5", "t"}, {"warmup", "1", "t"}}), std::pair(2, 3));
}

/// Which experts each GPU has in iteration 5, by EPLB that plans anew from three iterations.
std::vector<SlotTable> tables_of(const std::vector<Override>& more, const std::vector<int>& shown) {
  std::vector<Override> flags = {{"policy", "eplb", "t"},
                                 {"set", "policy.placement.interval=1", "t"},
                                 {"set", "policy.placement.first=1", "t"},
                                 {"set", "policy.placement.window=3", "t"},
                                 {"steps", "5:6", "t"}};
  flags.insert(flags.end(), more.begin(), more.end());
  const Scenario scenario = small_iteration(flags);
  const Inputs inputs = open_inputs(scenario);
  PolicyPlanner steps(scenario, inputs, inputs.clusters[0], inputs.systems[0],
                      {.explicit_rows = true});
  for (const int iteration : shown) steps.planner().warm_up(iteration);
  std::vector<SlotTable> tables;
  const PlannedStep planned = steps.plan(0);
  for (const PlannedLayer& layer : planned.layers) {
    tables.push_back(served(routing_of(layer)).placement.table());
  }
  return tables;
}

TEST(WarmUps, AreOfTheIterationsBeforeTheFirstThatCounts) {
  const auto warmed = tables_of({{"warmup", "1", "t"}}, {});
  EXPECT_EQ(warmed, tables_of({}, {4}));
  EXPECT_NE(warmed, tables_of({}, {}));
  EXPECT_NE(warmed, tables_of({}, {4, 5}));
  EXPECT_NE(warmed, tables_of({}, {2, 3, 4}));
  EXPECT_EQ(tables_of({{"warmup", "9", "t"}}, {}), tables_of({}, {0, 1, 2, 3, 4}));
}

/// The first policy's only step.
struct SmallExecution {
  explicit SmallExecution(const std::vector<Override>& more = {})
      : scenario(small_iteration(more)),
        inputs(open_inputs(scenario)),
        policies(plan_all(scenario, inputs, inputs.clusters[0])) {}
  const ExecutableStep& step() const { return policies.at(0).steps.at(0); }
  const HeldIteration& held() const { return step().iteration.value(); }
  /// The GPUs on the rings of a stage, by their place in a tensor group.
  std::vector<std::vector<std::size_t>> ring_members(std::size_t stage) const {
    std::vector<std::vector<std::size_t>> all;
    for (const auto& rings : held().stages.at(stage).rings) {
      for (const auto& ring : rings) {
        auto& members = all.emplace_back();
        for (const GpuId gpu : ring) members.push_back(gpu.index());
        std::ranges::sort(members);
      }
    }
    return all;
  }

  Scenario scenario;
  Inputs inputs;
  std::vector<SavedPolicy> policies;
};

TEST(ExecutedIterations, HoldTheirStagesAndTheirTokens) {
  const SmallExecution run({{"steps", "3:4", "t"}});
  EXPECT_EQ(run.policies.at(0).name, "alltoall");
  EXPECT_EQ(run.step().number, 3);
  const HeldIteration& held = run.held();
  EXPECT_EQ(std::tuple(held.tp, held.microbatches, held.micro_batch, held.sequence, held.zero),
            std::tuple(1, 4, 1, 4, 1));
  EXPECT_FALSE(held.gathers_parameters);
  EXPECT_TRUE(
      SmallExecution({{"overlap.gradients", "true", "t"}, {"overlap.parameters", "true", "t"}})
          .held()
          .gathers_parameters);
  EXPECT_THAT(run.inputs.layers, ElementsAre(0, 1, 2, 3)) << "all that were recorded";
  ASSERT_EQ(held.stages.size(), 2U);
  EXPECT_EQ(held.stages[1].gpus[0], GpuId(4));
  EXPECT_EQ(held.stages[1].chunks.size(), 1U);
  EXPECT_EQ(held.stages[1].chunks[0].position, 1);
  EXPECT_THAT(run.ring_members(0), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_THAT(run.ring_members(1), ElementsAre(ElementsAre(4, 5, 6, 7)));
  // Three MoE layers with four microbatches, the first on the first stage.
  std::vector<std::string> places;
  for (const ServedLayer& layer : run.step().layers) {
    std::string gpus;
    const SlotTable table = layer.placement.table();
    for (std::size_t g = 0; g < table.size(); ++g) gpus += table[g].empty() ? "-" : "x";
    places.push_back(fmt::format("{}.{} {} {}", layer.number, layer.microbatch, gpus,
                                 std::ranges::min(layer.source).index()));
  }
  std::vector<std::string> expected;
  for (int m = 0; m < 4; ++m) expected.push_back(fmt::format("1.{} xxxx---- 0", m));
  for (int m = 0; m < 4; ++m) {
    for (const int layer : {2, 3}) expected.push_back(fmt::format("{}.{} ----xxxx 4", layer, m));
  }
  EXPECT_EQ(places, expected);
}

TEST(ExecutedIterations, PassOnParametersAmongEqualPartsOfTensorGroups) {
  const SmallExecution run({{"parallel.tp", "2", "t"}, {"parallel.etp", "1", "t"}});
  EXPECT_EQ(run.held().tp, 2);
  EXPECT_THAT(run.ring_members(0), ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(run.ring_members(1), ElementsAre(ElementsAre(4, 6), ElementsAre(5, 7)));
}

TEST(ExecutedIterations, SayTheMemoryOfTheFullestGpu) {
  const SmallExecution run;
  PolicyPlanner steps(run.scenario, run.inputs, run.inputs.clusters[0], run.inputs.systems[0],
                      {.explicit_rows = true});
  const PlannedStep planned = steps.plan(0);
  Bytes most, least(1LL << 60);
  for (const MemoryPeak& peak : planned.memory.peaks) {
    most = std::max(most, peak.use.total());
    least = std::min(least, peak.use.total());
  }
  EXPECT_LT(least, most);
  EXPECT_EQ(run.step().peak_memory, most);
}

TEST(ExecutedIterations, OfPoliciesThatCannotHaveNoSteps) {
  const SmallExecution run({{"policy", "[alltoall, deepep-normal, laer]", "t"}});
  EXPECT_EQ(run.policies.at(0).unsuitable, "");
  EXPECT_EQ(run.policies.at(0).steps.size(), 1U);
  EXPECT_THAT(run.policies.at(1).unsuitable,
              HasSubstr("hardware cannot execute iterations whose rows are narrower than fp32: '"));
  EXPECT_THAT(run.policies.at(1).steps, IsEmpty());
  EXPECT_THAT(run.policies.at(2).unsuitable, HasSubstr("whose experts' parameters travel yet: '"));
  const auto order = [](const char* axes) {
    return error_of([&] {
      SmallExecution({{"parallel.tp", "2", "t"},
                      {"parallel.etp", "1", "t"},
                      {"parallel.ep", "2", "t"},
                      {"parallel.order", axes, "t"}});
    });
  };
  EXPECT_EQ(order("tp-cp-ep-dp-pp"), "");
  EXPECT_THAT(order("ep-dp-tp-pp"),
              AllOf(HasSubstr("hardware cannot execute the order ep-dp-tp-pp yet: a tensor group"),
                    HasSubstr("hint: let tp come first\n")));
}

TEST(ExecutedIterations, LeaveExpertsWhereTheyAre) {
  const ServedLayer one{3, 1, contiguous_placement(4, 2, 2), {}, {}, {}};
  ServedLayer other = one;
  other.placement = Placement(4, {{ExpertId(1), ExpertId(0)}, {ExpertId(2), ExpertId(3)}});
  EXPECT_NO_THROW(check_can_execute(std::vector{one, one}));
  EXPECT_THAT(error_of([&] {
                check_can_execute(std::vector{one, other});
              }),
              HasSubstr("whose experts change places between microbatches: those of layer 3"));
  other.number = 4;
  EXPECT_NO_THROW(check_can_execute(std::vector{one, other}));
}

/// The indices of replayed layers, then the warnings; or what is wrong. The model's are 1, 2, 3.
std::string replayed(std::vector<int> of_trace, std::vector<int> asked, bool recorded = false) {
  Scenario scenario;
  scenario.trace = "t";
  scenario.layers = std::move(asked);
  scenario.recorded_layers = recorded;
  MoeModel model;
  model.name = "m";
  model.experts = 8;
  model.moe_layers = {1, 2, 3};
  TraceInfo info;
  info.layers = std::move(of_trace);
  std::vector<Diagnostic> warnings;
  std::string text;
  const std::string mistake =
      error_of([&] { text = fmt::format("{}", choose_layers(scenario, info, model, warnings)); });
  for (const Diagnostic& d : warnings) text += "\n" + d.str();
  return mistake.empty() ? text : mistake;
}

TEST(ReplayedLayers, AreThoseAskedForOrAllThatWereRecorded) {
  EXPECT_EQ(replayed({1, 2, 3}, {}), "[0, 1, 2]");
  EXPECT_EQ(replayed({1, 2, 3}, {1, 3}), "[0, 2]");
  EXPECT_EQ(replayed({1, 2, 3}, {4}),
            "error: 'layers': layer 4 is not in the trace\nhint: recorded: 1..3\n");
  EXPECT_EQ(replayed({1, 2}, {}, true), "[0, 1]");
  EXPECT_EQ(replayed({1, 2}, {2}), "[1]");
  EXPECT_EQ(replayed({1, 2}, {}),
            "[0, 1]\nt: warning: 'layers': the trace has 2 MoE layers (1..2), the model 'm' has 3 "
            "(1..3); only the recorded ones are replayed\nhint: say 'layers: recorded' when that "
            "is meant\n");
  const std::string dense =
      "'layers': layer 0 is dense in the model 'm', whose MoE layers are 1..3";
  EXPECT_THAT(replayed({0, 1, 2}, {}), HasSubstr("t: error: " + dense));
  EXPECT_THAT(replayed({0, 1, 2}, {0}), HasSubstr("t: error: " + dense));
  EXPECT_EQ(replayed({0, 1, 2}, {}, true),
            "[0, 1, 2]\nt: warning: " + dense +
                "\nhint: they are replayed because of 'layers: recorded'\n");
}

}  // namespace
}  // namespace moesim
