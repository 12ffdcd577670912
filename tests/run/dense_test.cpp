// SPDX-License-Identifier: Apache-2.0
// Dense models as whole iterations and passes of serving: one case, whose figures follow from the
// model by hand; and what contradicts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/unsuitable.h"
#include "sim/model/kernel.h"
#include "sim/model/model_flops.h"
#include "sim/model/parameters.h"
#include "sim/run/result_file.h"
#include "sim/run/simulate.h"
#include "sim/scenario/policy_planner.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Llama 3 8B on 16 H100, whatever their memory; later flags win.
std::vector<Override> dense_flags(const std::vector<Override>& more = {}) {
  std::vector<Override> flags = {
      {"topology", "h100-rail", "t"},      {"model", "llama-3-8b", "m"},
      {"set", "topology.nodes=2", "s"},    {"set", "batch.global=16", "s"},
      {"set", "batch.sequence=2048", "s"}, {"memory", "ignore", "i"}};
  flags.insert(flags.end(), more.begin(), more.end());
  return flags;
}

std::vector<Override> set(const std::vector<std::string>& changes) {
  std::vector<Override> flags;
  for (const std::string& change : changes) flags.push_back({"set", change, "--set " + change});
  return flags;
}

std::vector<CaseResult> dense_cases(const std::vector<std::string>& changes) {
  const Scenario scenario = read_scenario("", dense_flags(set(changes)));
  return simulate(scenario, open_inputs(scenario), {.workers = 0}).cases;
}

std::string dense_refusal(const std::vector<Override>& more) {
  return error_of([&] { open_inputs(read_scenario("", dense_flags(more))); });
}

/// Parallel sizes and other keys of an iteration.
class DenseIteration : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(DenseIteration, IsOneCaseWhosePolicySaysThatThereAreNoExperts) {
  const std::vector<CaseResult> cases = dense_cases(GetParam());
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].name.policy, "no-experts");
  ASSERT_TRUE(cases[0].ran());
  const IterationFigures& figures = *cases[0].metrics.iteration;
  EXPECT_EQ(figures.load_max_over_mean, 0);
  for (const IterationPart part :
       {IterationPart::experts, IterationPart::tokens, IterationPart::moe_other}) {
    EXPECT_EQ(figures.times.of(part).value, 0) << name_of(part);
  }
}

TEST_P(DenseIteration, ComputesTheModelsFlops) {
  const Scenario scenario = read_scenario("", dense_flags(set(GetParam())));
  const Inputs inputs = open_inputs(scenario);
  PolicyPlanner planner(scenario, inputs, inputs.clusters[0], inputs.systems[0],
                        {.routing = RoutingSource::balanced});
  const PlannedStep step = planner.plan(0);
  double products = 0;
  for (const Op& op : step.plan.ops) {
    if (op.kernels() == nullptr) continue;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const Kernel& kernel = op.kernels()->of(m);
      if (std::holds_alternative<GroupedGemm>(kernel)) products += flops_of(kernel).value;
    }
  }
  // 6 N D, N without embedding and norms: the products of 16 sequences of 2048 tokens.
  const Parameters p = parameters_of(inputs.model);
  const auto weights = static_cast<double>(p.attention + p.dense_ffn + p.head);
  EXPECT_NEAR(products / (6 * weights * 16 * 2048), 1, 1e-9);
}

TEST_P(DenseIteration, HasTheUtilizationOfItsTime) {
  const Scenario scenario = read_scenario("", dense_flags(set(GetParam())));
  const Inputs inputs = open_inputs(scenario);  // a case points to its cluster
  const CaseResult result = simulate(scenario, inputs, {.workers = 0}).cases.at(0);
  const MoeModel model = read_moe_model(data_file("models", "llama-3-8b"));
  const double flop = training_flops(model, {.sequence = 2048}).total() * 16 * 2048;
  const double rate = flop / (result.metrics.mean_step().value * 16);
  EXPECT_NEAR(result.mfu() / (rate / 989.4e12), 1, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    Grids, DenseIteration,
    testing::Values(std::vector<std::string>{"zero=1"}, std::vector<std::string>{"zero=0"},
                    std::vector<std::string>{"zero=3"},
                    std::vector<std::string>{"parallel.tp=4", "parallel.cp=2"},
                    std::vector<std::string>{"parallel.tp=2", "parallel.pp=2"},
                    std::vector<std::string>{"parallel.pp=4", "parallel.vpp=2",
                                             "pipeline=interleaved"},
                    std::vector<std::string>{"parallel.pp=2", "pipeline=zb1p"},
                    std::vector<std::string>{"parallel.pp=2", "parallel.dp=8", "zero=2"}));

/// Bytes of a part of the fullest GPU's memory.
std::int64_t bytes_of_part(const CaseResult& result, const std::string& name) {
  for (const NamedBytes& part : result.metrics.iteration->fullest.parts) {
    if (part.name == name) return part.bytes.value;
  }
  return 0;
}

TEST(DenseMemory, OfWeightsGradientsAndOptimizerIsTheParametersOfAGpu) {
  // Of a tensor group of 4 each GPU has a quarter of the matrices and all of the norms.
  const Parameters p = parameters_of(read_moe_model(data_file("models", "llama-3-8b")));
  const std::int64_t own = (p.total() - p.norms) / 4 + p.norms;
  const CaseResult replicated = dense_cases({"parallel.tp=4", "zero=0"}).at(0);
  EXPECT_EQ(bytes_of_part(replicated, "weights"), 2 * own);
  EXPECT_EQ(bytes_of_part(replicated, "gradients"), 4 * own);
  EXPECT_EQ(bytes_of_part(replicated, "optimizer"), 12 * own);
  // Four replicas share the optimizer's state with ZeRO 1, gradients with 2 and weights with 3.
  const auto quarter = [&](std::int64_t bytes) { return static_cast<double>(bytes) / 4; };
  const CaseResult shared = dense_cases({"parallel.tp=4", "zero=1"}).at(0);
  EXPECT_EQ(bytes_of_part(shared, "weights"), 2 * own);
  EXPECT_NEAR(static_cast<double>(bytes_of_part(shared, "optimizer")) / quarter(12 * own), 1, 1e-6);
}

TEST(DenseIterations, RecomputeLayersForAnotherForwardPass) {
  const auto compute = [&](const std::string& modules) {
    const Seconds time =
        dense_cases({"software=ideal", "recompute=" + modules}).at(0).metrics.mean_step();
    return time.value;
  };
  // A quarter of products and scores runs again, but for the head.
  EXPECT_GT(compute("full") / compute("none"), 1.15);
  EXPECT_LT(compute("full") / compute("none"), 1.4);
}

TEST(DenseServing, IsOneCaseToo) {
  const Scenario scenario = read_scenario("", {{"topology", "h100-rail", "t"},
                                               {"model", "llama-3-8b", "m"},
                                               {"set", "topology.nodes=1", "s"},
                                               {"set", "parallel.tp=8", "s"},
                                               {"set", "serving.batch.sequences=32", "s"},
                                               {"set", "serving.batch.context=2048", "s"}});
  const Inputs inputs = open_inputs(scenario);
  const std::vector<CaseResult> cases = simulate(scenario, inputs, {.workers = 0}).cases;
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_TRUE(cases[0].ran());
  EXPECT_EQ(cases[0].name.policy, "no-experts");
  EXPECT_THAT(result_header(scenario, inputs, "1"),
              AllOf(HasSubstr("attention: tp 8 cp 1 dp 1\n"),
                    HasSubstr("# model llama-3-8b: 32 layers, dense; "),
                    HasSubstr("# no trace and no policy: no layer has experts\n")));
}

TEST(DenseScenarios, AreRefusedWhatIsOfExperts) {
  EXPECT_THAT(
      dense_refusal({{"policy", "eplb", "p"}}),
      AllOf(HasSubstr("'policy': 'eplb' places experts, and the model 'llama-3-8b' is dense"),
            HasSubstr("leave 'policy' out (--set policy=null)")));
  EXPECT_THAT(dense_refusal(set({"parallel.ep=8"})),
              AllOf(HasSubstr("'ep' is 8, and the model 'llama-3-8b' is dense"),
                    HasSubstr("tp, cp, pp and zero divide dense layers")));
  EXPECT_THAT(dense_refusal(set({"parallel.etp=1"})), HasSubstr("'etp' is 1, and the model"));
  EXPECT_THAT(
      dense_refusal({{"trace", "traces/tiny-moe-train", "r"}}),
      AllOf(HasSubstr("'trace' has choices of experts, and the model 'llama-3-8b' is dense"),
            HasSubstr("leave 'trace' out (--set trace=null)")));
  EXPECT_THAT(dense_refusal(set({"routing=recorded"})), HasSubstr("'routing' is recorded, and"));
}

TEST(DenseScenarios, OfStepsAreRefused) {
  try {
    open_inputs(read_scenario("", {{"topology", "h100-rail", "t"}, {"model", "llama-3-8b", "m"}}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("a step has only MoE layers, and the model 'llama-3-8b'"),
                                HasSubstr("with 'parallel' and 'batch'")));
  }
}

TEST(DenseScenarios, WithExpertsAreNotForTheirPolicy) {
  const Scenario scenario = read_scenario("", dense_flags({{"model", "gpt-oss-20b", "m"},
                                                           {"policy", "no-experts", "p"},
                                                           {"routing", "balanced", "r"}}));
  EXPECT_THROW(simulate(scenario, open_inputs(scenario), {.workers = 0}), Unsuitable);
}

TEST(DenseScenarios, SayInTheirHeaderThatTheModelIsDense) {
  const Scenario scenario = read_scenario("", dense_flags());
  EXPECT_EQ(scenario.policies, std::vector<std::string>{"no-experts"});
  EXPECT_TRUE(scenario.trace.empty());
  EXPECT_THAT(result_header(scenario, open_inputs(scenario), "1"),
              AllOf(HasSubstr("# model llama-3-8b: 32 layers, dense, 8.0e9 parameters\n"),
                    HasSubstr("# no trace and no policy: no layer has experts\n"),
                    testing::Not(HasSubstr("ep 1"))));
}

}  // namespace
}  // namespace moesim
