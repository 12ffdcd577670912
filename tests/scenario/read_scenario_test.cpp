// SPDX-License-Identifier: Apache-2.0
// What a scenario names: each once, at its line, by flags or in its file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>

#include "sim/scenario/iteration_reader.h"
#include "sim/scenario/policy_keys.h"
#include "sim/scenario/scenario.h"
#include "tests/error_of.h"
#include "tests/scenario/override_pairs.h"

namespace moesim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string four_inputs =
    "topology: h100-rail\nmodel: tiny-moe\ntrace: /no/such\npolicy: megatron\n";

/// Read in a folder that holds no inputs, so that they stay names.
Scenario from_text(const std::string& text, const std::vector<Override>& flags = {}) {
  return parse_scenario(text, "no/file.yaml", flags);
}

std::string refused_text(const std::string& text, const std::vector<Override>& flags = {}) {
  return error_of([&] { from_text(text, flags); });
}

TEST(ReadScenario, SaysHowToNameATrace) {
  EXPECT_THAT(
      refused_text("topology: h100-rail\nmodel: tiny-moe\npolicy: megatron\n"),
      AllOf(HasSubstr("the file lacks the key 'trace'"), HasSubstr("--synth, which draws")));
}

TEST(ReadScenario, HasNothingTwice) {
  const std::string rest = "model: tiny-moe\ntrace: /no/such\n";
  EXPECT_THAT(
      refused_text("topology: [a, b, a]\npolicy: [x, y, x]\nfidelity: [port, flow, port]\n" + rest),
      AllOf(HasSubstr("file.yaml:1:18: error: 'topology' has 'a' twice\n"),
            HasSubstr("file.yaml:2:16: error: 'policy' has 'x' twice\n"),
            HasSubstr("file.yaml:3:24: error: 'fidelity' has 'port' twice\n"),
            HasSubstr("hint: leave one of them out\n")));
  const std::string empty = refused_text("topology: ['', '']\npolicy: x\n" + rest);
  EXPECT_THAT(empty, AllOf(HasSubstr("is empty"), Not(HasSubstr("twice"))));
}

TEST(ReadScenario, OrdersPeersOnlyIfAllFidelitiesHaveFlows) {
  const auto order = [](const std::string& fidelity) {
    return four_inputs + "fidelity: " + fidelity + "\np2p_order: nccl\n";
  };
  EXPECT_EQ(from_text(order("[flow, simgrid]")).p2p_order, P2pOrder::nccl);
  EXPECT_THAT(refused_text(order("[flow, port]")),
              AllOf(HasSubstr("'p2p_order: nccl' has no effect at fidelity port"),
                    HasSubstr("hint: fidelity: flow\n")));
  EXPECT_THAT(refused_text(order("flaw")),
              AllOf(HasSubstr("did you mean 'flow'?"), Not(HasSubstr("has no effect"))));
  EXPECT_EQ(from_text(four_inputs + "p2p_order: all-at-once\n").p2p_order, P2pOrder::all_at_once);
}

TEST(ReadScenario, GridsAreForThoseWhoKnowTheirKeys) {
  const std::string grid = four_inputs + "axes: {ep: [1]}\n";
  EXPECT_THAT(refused_text(grid),
              AllOf(HasSubstr("file.yaml:5:7: error: 'axes' makes this file a grid of scenarios"),
                    HasSubstr("moesim advise finds the best of it")));
  EXPECT_NO_THROW(parse_scenario(grid, "file.yaml", {}, {"axes"}));
}

TEST(ReadScenario, SaysWhereItsFileNamesInputs) {
  const std::string text =
      "topology: [h100-rail, h200-rail]\nmodel: tiny-moe\ntrace: /no/such\npolicy:\n  - alltoall\n"
      "  - megatron\ntransport: ideal\n";
  const auto named = [&](const std::vector<Override>& flags) {
    std::vector<std::tuple<std::string, std::string, int>> places;
    for (const NamedAt& at : from_text(text, flags).named) {
      places.emplace_back(at.key, at.name, at.line);
    }
    return places;
  };
  using Place = std::tuple<std::string, std::string, int>;
  EXPECT_THAT(named({}),
              ElementsAre(Place{"topology", "h100-rail", 1}, Place{"topology", "h200-rail", 1},
                          Place{"model", "tiny-moe", 2}, Place{"trace", "/no/such", 3},
                          Place{"policy", "alltoall", 5}, Place{"policy", "megatron", 6},
                          Place{"transport", "ideal", 7}));
  EXPECT_THAT(named({{"topology", "torus", "t"}, {"policy", "eplb", "p"}}),
              ElementsAre(Place{"model", "tiny-moe", 2}, Place{"trace", "/no/such", 3},
                          Place{"transport", "ideal", 7}));
}

TEST(ReadScenario, ChangesOfOneInputFindItUnlessAFlagHasReplacedIt) {
  const auto lost = [](const std::string& change, const std::vector<Override>& flags = {}) {
    return refused_text(four_inputs + "set: ['" + change + "']\n", flags);
  };
  EXPECT_THAT(lost("topology:torus.nodes=1"),
              AllOf(HasSubstr("set topology:torus.nodes=1: error: no topology of the scenario is "
                              "called 'torus'\n"),
                    HasSubstr("hint: known: h100-rail\n")));
  EXPECT_THAT(lost("model:other.layers=1"), HasSubstr("no model of the scenario is called"));
  EXPECT_THAT(lost("policy:eplb.dispatch=dedup"), HasSubstr("no policy of the scenario is called"));
  EXPECT_THAT(lost("scenario:eplb.zero=1"), HasSubstr("no policy of the scenario is called"));
  EXPECT_EQ(lost("topology:torus.nodes=1", {{"topology", "h200-rail", "t"}}), "");
  EXPECT_EQ(lost("policy:eplb.dispatch=dedup", {{"policy", "alltoall", "p"}}), "");
  EXPECT_EQ(lost("scenario:eplb.zero=1", {{"policy", "alltoall", "p"}}), "");
  EXPECT_THAT(lost("policy:eplb.dispatch=dedup", {{"topology", "h200-rail", "t"}}),
              HasSubstr("no policy of the scenario is called"));
  EXPECT_THAT(refused_text(four_inputs, {{"topology", "h200-rail", "t"},
                                         {"set", "topology:torus.nodes=1", "--set"},
                                         {"set", "policy:eplb.dispatch=dedup", "--set"}}),
              AllOf(HasSubstr("called 'torus'"), HasSubstr("called 'eplb'")));
}

TEST(ReadScenario, FlagsRemoveAndChangeItsOwnKeys) {
  const std::string text = four_inputs + "tokens_per_rank: 8\nep: 4\n";
  EXPECT_EQ(from_text(text).tokens_per_rank, 8);
  const Scenario changed = from_text(
      text, {{"set", "tokens_per_rank=null", "--set"}, {"set", "topology.nodes=2", "--set"}});
  EXPECT_FALSE(changed.tokens_per_rank);
  EXPECT_EQ(changed.ep, 4);
  EXPECT_THAT(pairs_of(changed.set), ElementsAre("topology.nodes=2"));
}

TEST(ReadScenario, ChangesOfTheFileComeBeforeThoseOfFlags) {
  const Scenario scenario = from_text(
      "topology: h100-rail\nmodel: tiny-moe\ntrace: /no/such\npolicy: [{name: megatron, ep: 4}]\n"
      "set: [topology.nodes=2, model.layers=3]\n",
      {{"set", "topology.nodes=4", "--set"}});
  EXPECT_THAT(pairs_of(scenario.set), ElementsAre("scenario:megatron.ep=4", "topology.nodes=2",
                                                  "model.layers=3", "topology.nodes=4"));
  EXPECT_EQ(scenario.set[1].flag, "set topology.nodes=2");
}

TEST(ReadScenario, StepsAreForwardAndBackwardOfAllLayersUnlessStated) {
  const Scenario plain = from_text(four_inputs);
  EXPECT_TRUE(plain.backward);
  EXPECT_TRUE(plain.attention);
  EXPECT_FALSE(plain.recorded_layers);
  EXPECT_EQ(std::tuple(plain.memory, plain.repeat, plain.warmup, plain.accumulate),
            std::tuple(MemoryCheck::replayed, 1, 0, 1));
  EXPECT_EQ(std::tuple(plain.gradient_bytes, plain.optimizer_bytes), std::tuple(2, 12));
  EXPECT_THAT(plain.fidelities, ElementsAre(Fidelity::port));
  EXPECT_EQ(plain.transport, own_transport);
  EXPECT_FALSE(from_text(four_inputs + "pass: forward\n").backward);
  EXPECT_FALSE(from_text(four_inputs + "layers: all\n").recorded_layers);
  EXPECT_TRUE(from_text(four_inputs + "layers: recorded\n").recorded_layers);
  EXPECT_EQ(from_text(four_inputs + "memory: model\n").memory, MemoryCheck::model);
}

TEST(ReadScenario, AWarmUpOfNoStepsIsOneOfAllRanges) {
  EXPECT_EQ(from_text(four_inputs + "warmup: 0\nsteps: 0:3\n").warmup, 0);
  EXPECT_EQ(from_text(four_inputs + "warmup: 2\nsteps: 1:3\n").warmup, 2);
  EXPECT_EQ(from_text(four_inputs + "warmup: 2\n").warmup, 2);
}

TEST(PolicyKeys, OfAFileAreChangesOfThatPolicy) {
  const auto keys = [](const std::string& policy) {
    return own_keys_in("policy: " + policy + "\n", "");
  };
  const auto list = keys(
      "[laer, {name: m, parallel: {tp: 2, order: tp-ep}, zero: 1, recompute: [moe], layers: [1], "
      "routing: balanced}, {name: n, overlap: {gradients: true}}]");
  EXPECT_THAT(pairs_of(list),
              ElementsAre("scenario:m.parallel.tp=2", "scenario:m.parallel.order=tp-ep",
                          "scenario:m.zero=1", "scenario:m.recompute=[\"moe\"]",
                          "scenario:n.overlap.gradients=true"));
  EXPECT_EQ(list[0].flag, "policy m: parallel.tp=2");
  EXPECT_THAT(pairs_of(keys("{name: m, ep: 4}")), ElementsAre("scenario:m.ep=4"));
  EXPECT_THAT(pairs_of(keys("[{ep: 4}, {name: [x], ep: 4}, {name: m, ep: 4}]")),
              ElementsAre("scenario:m.ep=4"));
  EXPECT_THAT(keys("m"), IsEmpty());
  EXPECT_THAT(error_of([&] { keys("{name: m, zero: 1, zero: 2}"); }), HasSubstr("zero"));
}

TEST(PolicyKeys, OfOnePolicyAreThoseThatMayDiffer) {
  const std::vector<Override> changes = {{"scenario:m.parallel.ep", "4", "a"},
                                         {"scenario:n.zero", "1", "b"},
                                         {"scenario:m.parallel.tp", "2", "c"}};
  EXPECT_THAT(pairs_of(own_keys_of(changes, "m", true)), ElementsAre("ep=4", "parallel.tp=2"));
  EXPECT_THAT(pairs_of(own_keys_of(changes, "m", false)),
              ElementsAre("parallel.ep=4", "parallel.tp=2"));
  EXPECT_THAT(error_of([] {
                own_keys_of({{"scenario:m.zeros.x", "1", "--set z"}}, "m", true);
              }),
              AllOf(HasSubstr("--set z: error: a policy cannot have its own 'zeros'\n"),
                    HasSubstr("did you mean 'zero'?")));
  for (const char* key : {"ep", "gradient_bytes", "optimizer_bytes", "parallel.tp", "zero"}) {
    EXPECT_TRUE(may_be_own(key)) << key;
  }
  for (const char* key : {"routing", "steps", "topology"}) EXPECT_FALSE(may_be_own(key)) << key;
}

TEST(PolicyKeys, MakeNoIterationOfSteps) {
  EXPECT_THAT(refused_text("topology: h100-rail\nmodel: tiny-moe\ntrace: /no/such\npolicy:\n"
                           "  - {name: megatron, batch: {global: 8, sequence: 8}}\n  - alltoall\n"),
              HasSubstr("this makes a whole iteration of a policy's steps"));
}

TEST(IterationKeys, AreThoseAndWhatIsBelowThem) {
  for (const char* key : {"parallel", "parallel.tp", "host=none", "software=ideal", "serving.kv"}) {
    EXPECT_TRUE(is_iteration_key(key)) << key;
  }
  for (const char* key : {"software.host", "ep", "parallels.tp", "topology.nodes"}) {
    EXPECT_FALSE(is_iteration_key(key)) << key;
  }
}

TEST(ReadScenario, ChangesOfAFileAreAListOfThem) {
  EXPECT_THAT(refused_text(four_inputs + "set: []\n"), HasSubstr("'set' is an empty list"));
  EXPECT_THAT(refused_text(four_inputs + "set: [nodes=8, topology.nodes]\n"),
              AllOf(HasSubstr("file.yaml:5:7: error: 'set' cannot change 'nodes'"),
                    HasSubstr("'set' needs input.path=value, not 'topology.nodes'")));
  EXPECT_THAT(refused_text(four_inputs + "set: [{a: 1}]\n"),
              AllOf(HasSubstr("set.0"), Not(HasSubstr("input.path=value"))));
}

}  // namespace
}  // namespace moesim
