// SPDX-License-Identifier: Apache-2.0
// Iterations of many microbatches are what the steady state of few comes to.
#include "sim/run/steady_state.h"

#include <gtest/gtest.h>

#include <ostream>

#include "sim/run/simulate.h"

namespace moesim {
namespace {

struct SteadyCase {
  const char* name;
  std::vector<std::string> keys;  // "parallel.pp=2"
  std::string policies = "alltoall, deepep-normal";
  int nodes = 2;
};

void PrintTo(const SteadyCase& of, std::ostream* out) { *out << of.name; }

Scenario steady_iteration(const SteadyCase& of) {
  std::vector<Override> flags = {{"topology", "h100-rail", "t"},
                                 {"model", "qwen3-30b-a3b", "m"},
                                 {"policy", "[" + of.policies + "]", "p"},
                                 {"synth", "{layers: 4, tokens: 32768, sequences: 64}", "r"},
                                 {"microbatches", "{distinct: 2}", "d"},
                                 {"batch", "{global: 512, micro: 1, sequence: 512}", "b"},
                                 {"memory", "ignore", "y"},
                                 {"set", "topology.nodes=" + std::to_string(of.nodes), "n"},
                                 {"set", "model.layers=4", "l"},
                                 {"set", "model.moe_layers={first: 0, count: 4}", "l"}};
  for (const std::string& key : of.keys) {
    const std::size_t sign = key.find('=');
    flags.push_back({key.substr(0, sign), key.substr(sign + 1), "k"});
  }
  return read_scenario("", flags);
}

std::vector<CaseResult> cases_of(const Scenario& scenario, const Inputs& inputs,
                                 const ComparisonOptions& asked) {
  return simulate(scenario, inputs, asked).cases;
}

constexpr int microbatches = 64;  // at most, of a case

/// All figures, within what the case says of itself.
void expect_the_same(const RunMetrics& whole, const RunMetrics& few) {
  const IterationFigures &expected = *whole.iteration, &figures = *few.iteration;
  const double all = expected.times.iteration.value;
  const double error = figures.continued_error.value + 1e-9 * all;
  const double drift = error + figures.continued_drift.value;
  EXPECT_NEAR(few.mean_step().value, whole.mean_step().value, error);
  ASSERT_EQ(few.steps.size(), 1u);
  EXPECT_NEAR(few.steps[0].value, whole.steps[0].value, error);
  EXPECT_NEAR(few.path.length.value, whole.path.length.value, drift);
  EXPECT_EQ(figures.ops, expected.ops);
  EXPECT_EQ(figures.fullest, expected.fullest);
  EXPECT_NEAR(figures.load_max_over_mean, expected.load_max_over_mean, 1e-9);
  for (int p = 0; p < iteration_part_count; ++p) {
    const auto part = static_cast<IterationPart>(p);
    EXPECT_NEAR(figures.times.of(part).value, expected.times.of(part).value, drift)
        << name_of(part);
  }
  EXPECT_NEAR(figures.times.slowest_compute.value, expected.times.slowest_compute.value, drift);
  EXPECT_NEAR(figures.times.overlapped.value, expected.times.overlapped.value, drift);
  for (int k = 0; k < path_kind_count; ++k) {
    const auto kind = static_cast<PathKind>(k);
    EXPECT_NEAR(few.path.of(kind).time.value, whole.path.of(kind).time.value, drift)
        << name_of(kind);
  }
  ASSERT_EQ(few.layers.size(), whole.layers.size());
  for (const auto& [number, layer] : whole.layers) {
    const LayerMetrics& other = few.layers.at(number);
    EXPECT_EQ(other.link_bytes, layer.link_bytes);
    EXPECT_EQ(other.traffic, layer.traffic);
    EXPECT_EQ(other.parameter_traffic, layer.parameter_traffic);
    EXPECT_NEAR(other.compute.value, layer.compute.value, drift);
    EXPECT_NEAR(other.exposed.value, layer.exposed.value, drift);
    // Sums over microbatches, of GPUs that may drift apart.
    EXPECT_NEAR(other.forward.value, layer.forward.value, drift * microbatches);
    EXPECT_NEAR(other.backward.value, layer.backward.value, drift * microbatches);
    EXPECT_NEAR(other.load_max_over_mean.value(), layer.load_max_over_mean.value(), 1e-9);
  }
  ASSERT_EQ(figures.stage_turns.size(), expected.stage_turns.size());
  for (std::size_t s = 0; s < figures.stage_turns.size(); ++s) {
    for (int p = 0; p < turn_part_count; ++p) {
      const auto part = static_cast<TurnPart>(p);
      EXPECT_NEAR(figures.stage_turns[s].of(part).value, expected.stage_turns[s].of(part).value,
                  drift);
    }
  }
}

class SteadyStates : public testing::TestWithParam<SteadyCase> {};

TEST_P(SteadyStates, GoOnAsEveryMicrobatchDoes) {
  const Scenario scenario = steady_iteration(GetParam());
  const Inputs inputs = open_inputs(scenario);
  ComparisonOptions all, few;
  all.workers = few.workers = 0;
  all.every_microbatch = true;
  all.layers = few.layers = true;
  const auto whole = cases_of(scenario, inputs, all), fewer = cases_of(scenario, inputs, few);
  ASSERT_EQ(whole.size(), fewer.size());
  int continued = 0;
  Seconds drift;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    SCOPED_TRACE(whole[i].name.policy_text() + " " + whole[i].name.fidelity);
    EXPECT_EQ(whole[i].metrics.iteration->simulated_microbatches, 0);
    if (fewer[i].metrics.iteration->simulated_microbatches > 0) ++continued;
    drift += fewer[i].metrics.iteration->continued_drift;
    expect_the_same(whole[i].metrics, fewer[i].metrics);
  }
  EXPECT_GT(continued, 0);
  EXPECT_GT(drift.value, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, SteadyStates,
    testing::Values(
        SteadyCase{"one_stage", {"parallel={ep: 8}"}},
        SteadyCase{"stages", {"parallel={ep: 8, pp: 2}"}},
        SteadyCase{"balanced", {"parallel={ep: 8, pp: 2}", "routing=balanced"}},
        SteadyCase{"analytic", {"parallel={ep: 8, pp: 2}", "fidelity=[port, analytic]"}},
        SteadyCase{"interleaved", {"parallel={ep: 8, pp: 2, vpp: 2}", "pipeline=interleaved"}},
        SteadyCase{"zb1p", {"parallel={ep: 8, pp: 2}", "pipeline=zb1p"}},
        SteadyCase{"dualpipe", {"parallel={ep: 8, pp: 2}", "pipeline=dualpipe"}},
        SteadyCase{"dualpipev", {"parallel={ep: 8, pp: 2}", "pipeline=dualpipev"}},
        SteadyCase{"v_min", {"parallel={ep: 8, pp: 2}", "pipeline=v-min"}},
        SteadyCase{"sharded", {"parallel={ep: 8}", "zero=3"}},
        SteadyCase{
            "combined", {"parallel={ep: 8, pp: 2}", "pipeline=combined-1f1b"}, "eplb, llep"}),
    [](const auto& each) { return std::string(each.param.name); });

/// A host that is slower than its GPU catches up with what it issued ahead in the warm-up.
TEST(SteadyState, IsNoneOfAHostWhoseLeadShrinks) {
  for (const char* time : {"1 us", "4 us", "7 us", "10 us", "20 us"}) {
    SCOPED_TRACE(time);
    const std::string host = std::string("host={per_kernel: ") + time + ", per_module: 0 us}";
    const SteadyCase of{"host", {"parallel={ep: 8, pp: 2}", host}, "deepep-normal"};
    const Scenario scenario = steady_iteration(of);
    const Inputs inputs = open_inputs(scenario);
    ComparisonOptions all, few;
    all.workers = few.workers = 0;
    all.every_microbatch = true;
    expect_the_same(cases_of(scenario, inputs, all).front().metrics,
                    cases_of(scenario, inputs, few).front().metrics);
  }
}

TEST(SteadyState, IsNotAskedForWhereAllIsDrawn) {
  const Scenario scenario = steady_iteration({"drawn", {"parallel={ep: 8, pp: 2}"}, "alltoall"});
  const Inputs inputs = open_inputs(scenario);
  ComparisonOptions drawn;
  drawn.workers = 0;
  drawn.pictures = true;
  const auto cases = cases_of(scenario, inputs, drawn);
  EXPECT_EQ(cases.front().metrics.iteration->simulated_microbatches, 0);
}

}  // namespace
}  // namespace moesim
