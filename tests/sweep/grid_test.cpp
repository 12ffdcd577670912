// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/files.h"
#include "tests/error_of.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string without_trace = R"(topology: h100-rail
model: gpt-oss-20b
policy: megatron
)";
const std::string base = without_trace + "trace: tiny-moe-train\n";

class GridTest : public testing::Test {
 protected:
  SweepGrid read(const std::string& more, const std::vector<Override>& flags = {}) {
    return read_text(base + more, flags);
  }
  SweepGrid read_text(const std::string& text, const std::vector<Override>& flags = {}) {
    const std::string path = scratch_ / "grid.yaml";
    write_file(path, text);
    return SweepGrid::read(path, flags);
  }
  std::string mistake(const std::string& more) {
    return error_of([&] { read(more); });
  }
  ScratchFolder scratch_;
};

std::vector<std::string> texts(const SweepGrid& grid, std::int64_t id) {
  std::vector<std::string> result;
  for (const AxisPoint* point : grid.points(id)) result.push_back(point->text);
  return result;
}

TEST_F(GridTest, LastAxisChangesFirst) {
  const SweepGrid grid = read("axes: {topology.nodes: [2, 4, 8], steps: ['0:1', '0:2']}\n");
  ASSERT_EQ(grid.size(), 6);
  EXPECT_THAT(texts(grid, 0), ElementsAre("2", "0:1"));
  EXPECT_THAT(texts(grid, 1), ElementsAre("2", "0:2"));
  EXPECT_THAT(texts(grid, 5), ElementsAre("8", "0:2"));
  const Scenario last = grid.unit(5);
  ASSERT_EQ(last.set.size(), 1U);
  EXPECT_EQ(last.set[0].path + "=" + last.set[0].value, "topology.nodes=8");
  EXPECT_EQ(last.steps.last, 2);
}

TEST_F(GridTest, ScenarioWithoutAxesIsOne) {
  EXPECT_EQ(read("").size(), 1);
  EXPECT_EQ(read("axes: {}\n").size(), 1);
}

TEST_F(GridTest, FidelitiesAreThoseOfTheScenarioAndOfAxes) {
  EXPECT_THAT(read("").fidelities(), testing::SizeIs(1));
  EXPECT_THAT(read("fidelity: port\n").fidelities(), ElementsAre(Fidelity::port));
  EXPECT_THAT(read("axes: {fidelity: [analytic, port]}\n").fidelities(),
              ElementsAre(Fidelity::port, Fidelity::analytic));
  EXPECT_THAT(
      read("axes: {x: [{ep: 8, fidelity: [analytic]}, {fidelity: flow, ep: 16}]}\n").fidelities(),
      ElementsAre(Fidelity::flow, Fidelity::analytic));
  EXPECT_THAT(read("axes: {policy: [dedup, my-flow]}\n").fidelities(), ElementsAre(Fidelity::port))
      << "a policy's name";
}

TEST_F(GridTest, ListsOfTheScenarioAreAxes) {
  const SweepGrid grid = read("fidelity: [analytic, port]\naxes: {topology.nodes: [2, 4]}\n",
                              {{"policy", R"(["megatron", "dedup"])", "--policy megatron,dedup"}});
  std::vector<std::string> names;
  for (const SweepAxis& axis : grid.axes()) names.push_back(axis.name);
  EXPECT_THAT(names, ElementsAre("policy", "topology.nodes", "fidelity"));
  EXPECT_EQ(grid.size(), 8);
  EXPECT_EQ(grid.unit_size(), 2) << "fidelities share a plan";
  EXPECT_EQ(grid.unit(0).fidelities.size(), 2U);
  EXPECT_EQ(grid.unit(3).policies, std::vector<std::string>{"dedup"});
}

TEST_F(GridTest, ListedPointsChangeSeveralKeys) {
  const SweepGrid grid = read(R"(axes:
  cluster:
    - {name: small, topology.nodes: 2, ep: 8}
    - {topology: hybridep-l, ep: 16}
)");
  ASSERT_EQ(grid.size(), 2);
  EXPECT_THAT(texts(grid, 0), ElementsAre("small"));
  EXPECT_THAT(texts(grid, 1), ElementsAre("topology=hybridep-l ep=16"));
  EXPECT_EQ(grid.unit(0).ep, 8);
  EXPECT_EQ(grid.unit(1).topologies, std::vector<std::string>{"hybridep-l"});
}

TEST_F(GridTest, VariablesStandInTheFile) {
  const SweepGrid grid = read(R"(set: ["topology.node.nics.bandwidth=${rate} GB/s"]
axes: {rate: [25, 50]}
)");
  ASSERT_EQ(grid.size(), 2);
  EXPECT_EQ(grid.unit(1).set[0].value, "50 GB/s");
}

TEST_F(GridTest, VariablesMayNameThoseBehindThemMoreThanOnce) {
  const SweepGrid grid =
      read(R"(set: ["topology.nodes=${a}", "topology.node.nics.bandwidth=${b} GB/s"]
axes: {a: ["${b}${b}", "3"], b: [2, 4]}
)");
  const auto nodes = [&](std::int64_t unit) { return grid.unit(unit).set[0].value; };
  EXPECT_EQ(nodes(0) + " " + nodes(1) + " " + nodes(2), "22 44 3");
  EXPECT_EQ(grid.unit(1).set[1].value, "4 GB/s");
}

TEST_F(GridTest, NamesOfAxesAreColumnsOfTheirOwn) {
  EXPECT_THAT(mistake("ep: ${Id}\naxes: {Id: [8, 16]}\n"),
              HasSubstr("grid.yaml:6:12: error: an axis cannot be named 'Id': the results have a "
                        "column 'id'"));
  EXPECT_THAT(mistake("ep: ${model_XXH3}\naxes: {model_XXH3: [8, 16]}\n"),
              HasSubstr("an axis cannot be named 'model_XXH3'"));
  EXPECT_THAT(mistake("ep: ${n}\nrepeat: ${N}\naxes: {n: [8, 16], N: [1, 2]}\n"),
              HasSubstr("the names of the axes 'n' and 'N' differ only in case"));
  EXPECT_EQ(read("axes: {ep: [8, 16], transport: [ideal]}\n").size(), 2);
}

TEST_F(GridTest, ManyScenariosAreTooMany) {
  std::string values = "1";
  for (int i = 2; i <= 1000; ++i) values += ", " + std::to_string(i);
  EXPECT_THAT(mistake("axes: {topology.nodes: [" + values + "], warmup: [" + values +
                      "], repeat: [" + values + "]}\n"),
              HasSubstr("the axes make 1e+09 scenarios; at most 100000000 can be"));
}

TEST_F(GridTest, OneFidelityTakesThePlaceOfAll) {
  const SweepGrid grid = read("fidelity: [analytic, port]\naxes: {ep: [8, 16]}\n");
  EXPECT_EQ(grid.units(), 2);
  const SweepGrid flow = grid.at_fidelity(Fidelity::flow);
  EXPECT_THAT(flow.fidelities(), ElementsAre(Fidelity::flow));
  EXPECT_EQ(flow.size(), 2);
  EXPECT_EQ(flow.unit_size(), 1);
  EXPECT_EQ(flow.unit(1).ep, 16);
  EXPECT_NE(flow.hash(), grid.hash());
}

TEST_F(GridTest, TracesAreDrawn) {
  const SweepGrid grid = read_text(without_trace + R"(synth: {experts: 32, seed: "${seed}"}
axes: {seed: [1, 7]}
)");
  EXPECT_EQ(grid.unit(1).synth->seed, 7u);
}

TEST_F(GridTest, AnAxisMayChangeHowATraceIsDrawn) {
  const SweepGrid grid =
      read_text(without_trace + "synth: {seed: 3}\naxes: {synth.skew: [0, 0.5]}\n");
  ASSERT_EQ(grid.size(), 2);
  EXPECT_DOUBLE_EQ(grid.unit(1).synth->skew, 0.5);
  EXPECT_EQ(grid.unit(1).synth->seed, 3u);
}

TEST_F(GridTest, HashTellsGridsApart) {
  const std::string axes = "axes: {topology.nodes: [2, 4]}\n";
  EXPECT_EQ(read(axes).hash(), read(axes).hash());
  EXPECT_NE(read(axes).hash(), read("axes: {topology.nodes: [2, 8]}\n").hash());
  EXPECT_NE(read(axes).hash(), read(axes, {{"ep", "8", "--ep 8"}}).hash());
}

TEST_F(GridTest, MistakesHaveTheirPlace) {
  EXPECT_THAT(mistake("axes: {topology.nodes: 3}\n"),
              HasSubstr("grid.yaml:5:24: error: the axis 'topology.nodes' needs a list of values"));
  EXPECT_THAT(mistake("axes: {topology.nodes: []}\n"), HasSubstr("has no values"));
  EXPECT_THAT(mistake("axes: {ep: [8, 8]}\n"), HasSubstr("has '8' twice"));
  EXPECT_THAT(mistake("axes: {poliy: [a, b]}\n"), HasSubstr("poliy"));
  EXPECT_THAT(mistake("axes: {ep: [8, many]}\n"), HasSubstr("axis ep: ep=many"));
  EXPECT_THAT(mistake("axes: {toplogy.nodes: [8]}\n"), HasSubstr("toplogy"));
  EXPECT_THAT(mistake("ep: ${degree}\n"), HasSubstr("grid.yaml:5:5: error: no axis"));
  EXPECT_THAT(mistake("axes: {policy: [[megatron, dedup]]}\n"), HasSubstr("is a list"));
  EXPECT_THAT(mistake("synth: {expert: 32}\n"), HasSubstr("did you mean 'experts'"));
}

/// What check_inputs says; "" if nothing.
std::string mistake_in_inputs(const SweepGrid& grid) {
  return error_of([&] { grid.check_inputs(); });
}

TEST_F(GridTest, KeysThatNoInputKnowsAreMistakes) {
  EXPECT_THAT(mistake_in_inputs(read("axes: {topology.nodse: [2, 4]}\n")),
              AllOf(HasSubstr("grid.yaml:5:8: error: unknown key 'nodse'"),
                    HasSubstr("did you mean 'node'?")));
  EXPECT_THAT(mistake_in_inputs(read("axes: {model.hiden: [2048], gpu.memroy: [80 GB]}\n")),
              AllOf(HasSubstr("grid.yaml:5:8: error: unknown key 'hiden'"),
                    HasSubstr("grid.yaml:5:29: error: unknown key 'memroy'")));
  EXPECT_THAT(
      mistake_in_inputs(read("axes:\n  x:\n    - {ep: 8}\n    - {policy.dispach: dedup}\n")),
      HasSubstr("grid.yaml:8:8: error: unknown key 'dispach'"));
  EXPECT_EQ(mistake_in_inputs(read("axes: {topology.nodes: [2, 4], model.hidden: [2048]}\n")), "");
}

TEST_F(GridTest, KeysThatSomeInputsKnowAreNone) {
  const std::string depth = "axes: {policy.dispatch.depth: [1, 2]";
  EXPECT_THAT(mistake_in_inputs(read(depth + "}\n")), HasSubstr("error: unknown key 'depth'"));
  EXPECT_EQ(mistake_in_inputs(read(depth + ", policy: [megatron, hiermoe-hd]}\n")), "");
  const std::vector<Override> both = {
      {"policy", R"(["megatron", "hiermoe-hd"])", "--policy megatron,hiermoe-hd"}};
  EXPECT_EQ(mistake_in_inputs(read(depth + "}\n", both)), "");
  EXPECT_THAT(mistake_in_inputs(read("axes: {policy.dispatch.dept: [1, 2]}\n", both)),
              HasSubstr("unknown key 'dept'"));
  const std::string told = mistake_in_inputs(read("axes: {policy.dispatch.dept: [1, 2]}\n", both));
  EXPECT_EQ(told.find("error:"), told.rfind("error:")) << told;
  const SweepGrid of_one = read("axes: {policy:hiermoe-hd.dispatch.depth: [1, 2]}\n", both);
  EXPECT_EQ(mistake_in_inputs(of_one), "");
  EXPECT_TRUE(of_one.unit(0).set.empty()) << "megatron has none of it";
  EXPECT_EQ(of_one.unit(3).set.size(), 1U);
  const std::string once =
      mistake_in_inputs(read("axes: {policy:hiermoe.dispatch.depth: [1, 2]}\n", both));
  EXPECT_THAT(once,
              HasSubstr("grid.yaml:5:8: error: no policy of the scenario is called 'hiermoe'"));
  EXPECT_EQ(once.find("error:"), once.rfind("error:")) << once;
  std::vector<Override> changed = both;
  changed.push_back({"set", "policy:hiermoe-hd.dispatch.depth=1", "--set depth"});
  EXPECT_EQ(mistake_in_inputs(read("", changed)), "");
  changed.back().value = "policy.dispatch.dept=1";
  EXPECT_THAT(mistake_in_inputs(read("", changed)),
              HasSubstr("--set depth: error: unknown key 'dept'"));
}

TEST_F(GridTest, APolicyLeavesOutWhatOnlyOthersHaveKeysFor) {
  const std::vector<Override> both = {
      {"policy", R"(["megatron", "hiermoe-hd"])", "--policy megatron,hiermoe-hd"}};
  const SweepGrid axis = read("axes: {policy.dispatch.depth: [1, 2]}\n", both);
  EXPECT_TRUE(axis.unit(0).set.empty() && axis.unit(1).set.empty()) << "megatron has no depth";
  EXPECT_EQ(axis.unit(2).set.front().value, "1");
  EXPECT_EQ(axis.unit(3).set.front().value, "2");
  ASSERT_EQ(axis.left_out().size(), 1U);
  EXPECT_THAT(axis.left_out().front().str(),
              HasSubstr("policy.dispatch.depth: warning: megatron has no such key"));
  const SweepGrid in_file = read("set: [policy.dispatch.depth=2]\n", both);
  EXPECT_EQ(mistake_in_inputs(in_file), "");
  EXPECT_TRUE(in_file.unit(0).set.empty());
  EXPECT_EQ(in_file.unit(1).set.size(), 1U);
  EXPECT_THAT(mistake_in_inputs(read("set: [policy.dispatch.dept=2]\n", both)),
              HasSubstr("unknown key 'dept'"));
  // A mistake is found whatever else the first policy has no key for.
  const std::vector<Override> placed = {
      {"policy", R"(["dedup", "laer"])", "--policy dedup,laer"},
      {"set", "policy.placement.slotz=4", "--set policy.placement.slotz=4"}};
  EXPECT_THAT(mistake_in_inputs(read("set: [policy.placement.slots=4]\n", placed)),
              HasSubstr("slotz"));
  EXPECT_TRUE(
      read("axes: {policy.dispatch.metadata.counts: [true, false]}\n", both).left_out().empty())
      << "both have it";
}

TEST_F(GridTest, KeysOfEachInputAreLookedUp) {
  for (const char* key : {"transport.fooo", "gpu.fooo", "model.fooo", "topology.fooo",
                          "policy.fooo", "transport:nccl-p2p.fooo"}) {
    const std::string axis = std::string("axes: {") + key + ": [1, 2]}\n";
    EXPECT_THAT(mistake_in_inputs(read("transport: nccl-p2p\n" + axis)),
                HasSubstr("grid.yaml:6:8: error: unknown key 'fooo'"))
        << key;
  }
  EXPECT_EQ(mistake_in_inputs(read("axes: {transport.sms: [1, 2], gpu.memory: [80 GB]}\n")), "");
}

TEST_F(GridTest, ListsOfTheScenarioHaveTheirPlaceToo) {
  EXPECT_THAT(mistake_in_inputs(read_text("model: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: "
                                          "dedup\ntopology: [h100-rail, h100-rial]\n")),
              HasSubstr("grid.yaml:4:1: error: 'topology'"));
  EXPECT_THAT(
      mistake_in_inputs(read("axes: {topology.nodes: [2], topology: [h100-rail, h100-rial]}\n")),
      HasSubstr("grid.yaml:5:29: error: 'topology'"));
  const SweepGrid of_flags = SweepGrid::parse(without_trace + "trace: tiny-moe-train\n", "f.yaml",
                                              {{"set", "model.hiden=3", "--set model.hiden=3"}});
  EXPECT_THAT(mistake_in_inputs(of_flags),
              testing::StartsWith("--set model.hiden=3: error: unknown key 'hiden'"));
}

TEST(SweepAxes, ChangeInputsByTheirPaths) {
  for (const char* key :
       {"topology.nodes", "model.hidden", "gpu.memory", "policy.dispatch.depth", "transport.sms",
        "policy:laer.placement.slots", "topology:a.nodes", "scenario:laer.ep"}) {
    EXPECT_TRUE(changes_input(key)) << key;
  }
  for (const char* key : {"topology", "model", "gpu", "policy", "transport", "ep", "scenario",
                          "scenario.ep", "overlap.gradients", "synth.skew"}) {
    EXPECT_FALSE(changes_input(key)) << key;
  }
}

TEST_F(GridTest, NamesOfInputsThatAreNotThereAreMistakes) {
  EXPECT_THAT(mistake_in_inputs(read("axes: {topology: [h100-rail, h100-rial]}\n")),
              AllOf(HasSubstr("grid.yaml:5:8: error: 'topology'"), HasSubstr("h100-rail")));
  EXPECT_THAT(mistake_in_inputs(read("axes: {policy: [dedup, dedpu]}\n")), HasSubstr("dedpu"));
}

}  // namespace
}  // namespace moesim
