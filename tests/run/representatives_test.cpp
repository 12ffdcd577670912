// SPDX-License-Identifier: Apache-2.0
// GPUs that stand for others change no figure of an iteration.
#include <gtest/gtest.h>

#include <ostream>

#include "sim/run/simulate.h"

namespace moesim {
namespace {

/// Flags of an iteration by whose balanced routing GPUs are alike, and how many are simulated.
struct AlikeCase {
  const char* name;
  std::vector<std::string> keys;  // "parallel.pp=2"
  std::string policies;
  int nodes = 2, simulated = 0;
};

void PrintTo(const AlikeCase& of, std::ostream* out) { *out << of.name; }

Scenario iteration_of(const AlikeCase& of) {
  std::vector<Override> flags = {{"topology", "h100-rail", "t"},
                                 {"model", "qwen3-30b-a3b", "m"},
                                 {"policy", "[" + of.policies + "]", "p"},
                                 {"routing", "balanced", "r"},
                                 {"fidelity", "[port, analytic]", "f"},
                                 {"batch", "{global: 64, micro: 1, sequence: 512}", "b"},
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

void expect_near(Seconds a, Seconds b) { EXPECT_NEAR(a.value, b.value, 1e-9 * b.value + 1e-12); }

class AlikeGpus : public testing::TestWithParam<AlikeCase> {};

TEST_P(AlikeGpus, AreSimulatedOnceForTheSameFigures) {
  const Scenario scenario = iteration_of(GetParam());
  const Inputs inputs = open_inputs(scenario);
  ComparisonOptions all, few;
  all.workers = few.workers = 0;
  all.every_gpu = true;
  all.layers = few.layers = true;
  const auto whole = simulate(scenario, inputs, all).cases;
  const auto fewer = simulate(scenario, inputs, few).cases;
  ASSERT_EQ(whole.size(), fewer.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    const IterationFigures& expected = *whole[i].metrics.iteration;
    const IterationFigures& figures = *fewer[i].metrics.iteration;
    EXPECT_EQ(expected.simulated_gpus, 0);
    EXPECT_EQ(figures.simulated_gpus, GetParam().simulated);
    EXPECT_LE(figures.ops, expected.ops);
    expect_near(figures.times.iteration, expected.times.iteration);
    for (int p = 0; p < iteration_part_count; ++p) {
      const auto part = static_cast<IterationPart>(p);
      EXPECT_NEAR(figures.times.of(part).value, expected.times.of(part).value,
                  1e-9 * expected.times.iteration.value)
          << name_of(part);
    }
    expect_near(figures.times.slowest_compute, expected.times.slowest_compute);
    expect_near(figures.times.busiest, expected.times.busiest);
    EXPECT_NEAR(figures.times.overlapped.value, expected.times.overlapped.value,
                1e-9 * expected.times.iteration.value);
    EXPECT_DOUBLE_EQ(figures.load_max_over_mean, expected.load_max_over_mean);
    EXPECT_EQ(figures.fullest, expected.fullest);
    expect_near(fewer[i].metrics.path.length, whole[i].metrics.path.length);
    for (int k = 0; k < path_kind_count; ++k) {
      const auto kind = static_cast<PathKind>(k);
      EXPECT_NEAR(fewer[i].metrics.path.of(kind).time.value,
                  whole[i].metrics.path.of(kind).time.value, 1e-9 * expected.times.iteration.value)
          << name_of(kind);
    }
    ASSERT_EQ(fewer[i].metrics.layers.size(), whole[i].metrics.layers.size());
    for (const auto& [number, layer] : whole[i].metrics.layers) {
      const LayerMetrics& other = fewer[i].metrics.layers.at(number);
      expect_near(other.forward, layer.forward);
      expect_near(other.backward, layer.backward);
      expect_near(other.compute, layer.compute);
      expect_near(other.communication, layer.communication);
      EXPECT_NEAR(other.exposed.value, layer.exposed.value, 1e-9 * layer.forward.value);
      EXPECT_EQ(other.link_bytes, layer.link_bytes);
      EXPECT_EQ(other.traffic, layer.traffic);
      EXPECT_EQ(other.parameter_traffic, layer.parameter_traffic);
    }
    ASSERT_EQ(figures.stage_turns.size(), expected.stage_turns.size());
    for (std::size_t s = 0; s < figures.stage_turns.size(); ++s) {
      for (std::size_t p = 0; p < figures.stage_turns[s].parts.size(); ++p) {
        EXPECT_NEAR(figures.stage_turns[s].parts[p].value, expected.stage_turns[s].parts[p].value,
                    1e-9 * expected.times.iteration.value);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Balanced, AlikeGpus,
    testing::Values(
        AlikeCase{"one_stage", {"parallel={ep: 16}"}, "alltoall, megatron, deepep-normal", 2, 1},
        AlikeCase{"replicas", {"parallel={ep: 8}"}, "alltoall, deepep-normal", 2, 1},
        AlikeCase{"stages", {"parallel={ep: 8, pp: 2}"}, "alltoall, deepep-normal", 2, 2},
        AlikeCase{"two_cells", {"parallel={ep: 8, pp: 2}"}, "alltoall, megatron", 4, 2},
        AlikeCase{"between_nodes", {"parallel={ep: 16, pp: 2}"}, "deepep-normal, hybrid-ep", 4, 2},
        AlikeCase{
            "tensor", {"parallel={ep: 8, tp: 2, etp: 1, pp: 2}"}, "alltoall, deepep-normal", 4, 2},
        AlikeCase{"context", {"parallel={ep: 4, tp: 2, cp: 2, etp: 1}"}, "alltoall", 4, 1},
        AlikeCase{
            "dualpipe", {"parallel={ep: 8, pp: 4}", "pipeline=dualpipe"}, "deepep-normal", 4, 4},
        AlikeCase{"zero3", {"parallel={ep: 8}", "zero=3"}, "alltoall", 2, 1}),
    [](const auto& each) { return std::string(each.param.name); });

/// Recorded choices tell GPUs apart, and communicators: those of a phase are one op, but start and
/// end by themselves.
AlikeCase recorded(const char* name, const char* parallel, const char* policies, int nodes,
                   std::vector<std::string> more = {}) {
  more.push_back(parallel);
  more.emplace_back("routing=recorded");
  more.emplace_back("synth={tokens: 8192, sequences: 16, skew: 0.3}");
  return {name, std::move(more), policies, nodes, 0};
}

INSTANTIATE_TEST_SUITE_P(
    Recorded, AlikeGpus,
    testing::Values(recorded("replicas", "parallel={ep: 8}", "alltoall, deepep-normal", 2),
                    recorded("stages", "parallel={ep: 8, pp: 2}", "alltoall, megatron", 4),
                    recorded("rails", "parallel={ep: 16, pp: 2}", "deepep-normal, hybrid-ep", 4),
                    recorded("relays", "parallel={ep: 16}", "hiermoe", 4),
                    recorded("tensor", "parallel={ep: 8, tp: 2, pp: 2}", "alltoall", 4),
                    recorded("context", "parallel={ep: 4, tp: 2, cp: 2, etp: 1}", "alltoall", 4),
                    recorded("dualpipe", "parallel={ep: 16, pp: 2}", "deepep-normal", 4,
                             {"pipeline=dualpipe"}),
                    recorded("zero3", "parallel={ep: 8}", "alltoall", 2, {"zero=3"})),
    [](const auto& each) { return std::string(each.param.name); });

/// Choices that are recorded tell GPUs apart.
TEST(AlikeGpus, AreAllSimulatedIfTheyDiffer) {
  AlikeCase of{"recorded", {"parallel={ep: 8}", "routing=recorded"}, "alltoall"};
  of.keys.push_back("synth={tokens: 8192, sequences: 16, skew: 0.3}");
  const Scenario scenario = iteration_of(of);
  ComparisonOptions here;
  here.workers = 0;
  for (const CaseResult& c : simulate(scenario, open_inputs(scenario), here).cases) {
    EXPECT_EQ(c.metrics.iteration->simulated_gpus, 0);
  }
}

}  // namespace
}  // namespace moesim
