// SPDX-License-Identifier: Apache-2.0
// The points that questions about iterations and placements make, and what each of them changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sweep/advise.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// gpt-oss-20b, 24 layers of 32 experts, on h100-rail with nodes of 8 GPUs.
SweepGrid asked_grid(const std::string& more,
                     const std::string& model = "gpt-oss-20b\npolicy: alltoall") {
  return SweepGrid::parse(
      "topology: h100-rail\nmodel: " + model + "\nset: [topology.nodes=2]\n" + more, "asked.yaml",
      {});
}

SweepGrid asked_iteration(const std::string& parallel, const std::string& more = "") {
  return asked_grid("routing: balanced\nparallel: {" + parallel +
                    "}\nbatch: {global: 64, sequence: 4096}\n" + more);
}

/// "text: key=value key=value" of every point of the question's last axis.
std::vector<std::string> asked_points(const std::string& question, const SweepGrid& grid) {
  std::vector<std::string> lines;
  const auto axes = axes_of_question(question, grid);
  for (const AxisPoint& point : axes.back().points) {
    std::string line = point.text + ":";
    for (const Override& change : point.changes) line += " " + change.path + "=" + change.value;
    lines.push_back(line);
  }
  return lines;
}

std::string asked_mistake(const std::string& question, const SweepGrid& grid) {
  return error_of([&] { axes_of_question(question, grid); });
}

TEST(AskedAxes, ChunksBringTheirSchedule) {
  EXPECT_THAT(asked_points("vpp", asked_iteration("pp: 8, ep: 2")),
              ElementsAre("8 x 1: parallel.pp=8 parallel.vpp=1 pipeline=1f1b",
                          "8 x 2: parallel.pp=8 parallel.vpp=2 pipeline=interleaved"))
      << "24 layers have no 32 chunks";
  EXPECT_THAT(asked_points("vpp", asked_iteration("pp: 8, ep: 2", "pipeline: combined-1f1b\n")),
              ElementsAre("8 x 1: parallel.pp=8 parallel.vpp=1 pipeline=combined-1f1b",
                          "8 x 2: parallel.pp=8 parallel.vpp=2 pipeline=combined-interleaved"));
  EXPECT_THAT(asked_points("vpp", asked_iteration("pp: 8, vpp: 3, ep: 2"))[0],
              "8 x 1: parallel.pp=8 parallel.vpp=1 pipeline=1f1b");
  EXPECT_THAT(asked_points("vpp", asked_iteration("pp: 2, ep: 8", "pipeline: gpipe\n"))[0],
              "2 x 1: parallel.pp=2 parallel.vpp=1 pipeline=gpipe");
}

TEST(AskedAxes, StagesDivideTheGpusAndOneHasOneChunk) {
  std::vector<std::string> texts;
  for (const std::string& line : asked_points("pp", asked_iteration("ep: 8"))) {
    texts.push_back(line.substr(0, line.find(':')));
  }
  EXPECT_THAT(texts, ElementsAre("1 x 1", "2 x 1", "2 x 2", "2 x 4", "2 x 8", "4 x 1", "4 x 2",
                                 "4 x 4", "8 x 1", "8 x 2", "16 x 1"));
}

TEST(AskedAxes, DualpipeHasMoreThanOneStage) {
  const auto points = asked_points("pp", asked_iteration("pp: 2, ep: 8", "pipeline: dualpipe\n"));
  EXPECT_EQ(points[0], "2 x 1: parallel.pp=2 parallel.vpp=1 pipeline=dualpipe");
}

TEST(AskedAxes, TensorGroupsStayInAHostAndDivideItsRanks) {
  EXPECT_THAT(
      asked_points("tp", asked_iteration("ep: 8")),
      ElementsAre("1: parallel.tp=1", "2: parallel.tp=2", "4: parallel.tp=4", "8: parallel.tp=8"));
  EXPECT_THAT(asked_points("tp", asked_iteration("cp: 4, ep: 4")),
              ElementsAre("1: parallel.tp=1", "2: parallel.tp=2", "4: parallel.tp=4"))
      << "16 GPUs in groups of cp = 4";
}

TEST(AskedAxes, ParametersOverlapWhereTheyAreShared) {
  const std::string nothing = "nothing: overlap.gradients=false overlap.parameters=false",
                    gradients = "gradients: overlap.gradients=true overlap.parameters=false",
                    both = "gradients, parameters: overlap.gradients=true overlap.parameters=true";
  EXPECT_THAT(asked_points("overlap", asked_iteration("ep: 8", "zero: 1\n")),
              ElementsAre(nothing, gradients, both));
  EXPECT_THAT(asked_points("overlap", asked_iteration("ep: 8", "zero: 0\n")),
              ElementsAre(nothing, gradients));
}

TEST(AskedAxes, RecomputationsAreThoseOfTheModelAndPipeline) {
  EXPECT_THAT(asked_points("recompute", asked_iteration("ep: 8")),
              ElementsAre("none: recompute=none", "core_attn: recompute=core_attn",
                          "moe_act: recompute=moe_act", "layernorm: recompute=layernorm",
                          "moe: recompute=moe", "full: recompute=full"));
  const SweepGrid dense =
      asked_grid("parallel: {tp: 2}\nbatch: {global: 64, sequence: 4096}\n", "llama-3-8b");
  EXPECT_THAT(asked_points("recompute", dense),
              ElementsAre("none: recompute=none", "core_attn: recompute=core_attn",
                          "mlp: recompute=mlp", "full: recompute=full"));
}

TEST(AskedAxes, MechanismsAndBandwidthsAreListed) {
  const SweepGrid steps = asked_grid("trace: tiny-moe-train\nrepeat: 4\n");
  const auto mechanisms = asked_points("mechanism", steps);
  EXPECT_EQ(mechanisms.size(), 12U);
  EXPECT_EQ(mechanisms[0], "alltoall: policy=alltoall");
  EXPECT_THAT(asked_points("nic-bandwidth", steps),
              ElementsAre("12.5 GB/s: topology.node.nics.bandwidth=12.5 GB/s",
                          "25 GB/s: topology.node.nics.bandwidth=25 GB/s",
                          "50 GB/s: topology.node.nics.bandwidth=50 GB/s",
                          "100 GB/s: topology.node.nics.bandwidth=100 GB/s",
                          "200 GB/s: topology.node.nics.bandwidth=200 GB/s"));
  EXPECT_THAT(asked_points("hd-depth", steps),
              ElementsAre("alltoall: policy=alltoall", "hiermoe-hd: policy=hiermoe-hd",
                          "hiermoe-hd2: policy=hiermoe-hd2", "hiermoe-hd3: policy=hiermoe-hd3"));
  EXPECT_EQ(asked_points("ep-degree", asked_iteration("ep: 8"))[1], "2: parallel.ep=2");
}

// The first step has the loads of the first plan; the other six make one interval of four.
TEST(AskedAxes, IntervalsLeaveAStepForTheFirstPlan) {
  const auto lines = [](const std::string& more) {
    std::vector<std::string> kept;
    for (std::string line :
         asked_points("eplb-interval", asked_grid("trace: tiny-moe-train\nrepeat: 4\n" + more))) {
      for (const std::string key : {"policy.placement."}) {
        for (auto at = line.find(key); at != std::string::npos; at = line.find(key)) {
          line.erase(at, key.size());
        }
      }
      kept.push_back(line);
    }
    return kept;
  };
  EXPECT_THAT(lines("tokens_per_rank: 64\nsteps: 3:10\n"),
              ElementsAre("1: interval=1 first=1 steps=4:8 warmup=1",
                          "2: interval=2 first=1 steps=4:8 warmup=1",
                          "4: interval=4 first=1 steps=4:8 warmup=1"));
  EXPECT_THAT(lines("tokens_per_rank: 64\nsteps: 3:8\nwarmup: 2\n"),
              ElementsAre("1: interval=1 first=2 steps=3:7 warmup=2",
                          "2: interval=2 first=2 steps=3:7 warmup=2",
                          "4: interval=4 first=2 steps=3:7 warmup=2"));
  EXPECT_THAT(lines("tokens_per_rank: 64\nsteps: 0:3\n"),
              ElementsAre("1: interval=1 first=1 steps=1:3 warmup=1",
                          "2: interval=2 first=1 steps=1:3 warmup=1"));
}

TEST(AskedAxes, IntervalsOfIterationsAreEightAtLeast) {
  EXPECT_THAT(asked_points("eplb-interval", asked_iteration("ep: 8")).back(),
              HasSubstr("8: policy.placement.interval=8 policy.placement.first=1 steps=1:9 "));
  EXPECT_THAT(
      asked_points("eplb-interval", asked_iteration("ep: 8", "steps: 2:7\nwarmup: 1\n")).back(),
      HasSubstr("4: policy.placement.interval=4 policy.placement.first=1 steps=2:6 warmup=1"));
}

TEST(AskedAxes, IntervalsOfTwoIterationsAreTooShort) {
  EXPECT_THAT(asked_mistake("eplb-interval", asked_iteration("ep: 8", "steps: 0:2\n")),
              HasSubstr("--ask eplb-interval: an interval of 2 needs 3 steps, not 2\n"));
}

TEST(AskedAxes, AreThoseOfTheFirstScenario) {
  EXPECT_THAT(asked_mistake("vpp", asked_iteration("ep: 8", "axes: {parallel.pp: [1, 2]}\n")),
              HasSubstr("--ask vpp: the scenario has one pipeline stage"));
  const auto first = [](const std::string& question, const std::string& axes) {
    return asked_points(question, asked_grid("trace: tiny-moe-train\naxes: {" + axes + "}\n"))
        .at(0);
  };
  EXPECT_EQ(first("slots", "ep: [8, 16]"), "4: policy.placement.slots=4");
  EXPECT_EQ(first("slots", "ep: [16, 8]"), "2: policy.placement.slots=2");
  EXPECT_THAT(first("eplb-interval", "steps: ['0:3', '5:9']"), HasSubstr(" steps=1:3 "));
  const std::string one_node = first("nvlink-domain", "topology.nodes: [1, 2]");
  EXPECT_THAT(one_node, HasSubstr("4: topology.nodes=2 "));
}

TEST(AskedAxes, SayWhatTheyCannotBeAskedOf) {
  EXPECT_THAT(asked_mistake("mechanism", asked_grid("parallel: {tp: 2}\nbatch: {global: 64, "
                                                    "sequence: 4096}\n",
                                                    "llama-3-8b")),
              testing::ContainsRegex(
                  "--ask mechanism is about experts, and the model '.*llama-3-8b.*' is dense"));
  EXPECT_THAT(asked_mistake("tp", asked_grid("trace: tiny-moe-train\nrepeat: 4\n")),
              HasSubstr("--ask tp: the scenario is one of steps"));
}

TEST(AskedAxes, LayoutsSayWhereEveryLayerIs) {
  const SweepGrid laid = asked_iteration("pp: 2, ep: 8, layout: 'Et*12|t*12L'");
  for (const std::string question : {"pp", "vpp"}) {
    EXPECT_EQ(asked_mistake(question, laid),
              "error: --ask " + question +
                  ": 'parallel.layout' says where every layer is\n"
                  "hint: leave it out to ask about other pipelines\n");
  }
  EXPECT_EQ(asked_mistake("tp", laid), "");
}

TEST(AskedAxes, ChunksMayHaveOneLayer) {
  const std::string sixteen = "set: [model.layers=16, model.moe_layers.count=16]\n";
  const SweepGrid grid = SweepGrid::parse(
      "topology: hiermoe-a6000\nmodel: gpt-oss-20b\npolicy: alltoall\nrouting: balanced\n"
      "parallel: {pp: 8, ep: 4}\nbatch: {global: 64, sequence: 4096}\n" +
          sixteen,
      "asked.yaml", {});
  const auto last = [&](const char* question) { return asked_points(question, grid).back(); };
  EXPECT_EQ(last("vpp"), "8 x 2: parallel.pp=8 parallel.vpp=2 pipeline=interleaved");
  EXPECT_EQ(last("pp"), "16 x 1: parallel.pp=16 parallel.vpp=1 pipeline=1f1b");
}

TEST(AskedAxes, TensorGroupsDivideTheSequence) {
  const SweepGrid odd =
      asked_grid("routing: balanced\nparallel: {ep: 8}\nbatch: {global: 64, sequence: 4098}\n");
  EXPECT_THAT(asked_points("tp", odd), ElementsAre("1: parallel.tp=1", "2: parallel.tp=2"));
}

TEST(AskedAxes, MergedPassesRunNoDispatchAgain) {
  const auto recomputed = [](const std::string& more) {
    return asked_points("recompute", asked_iteration("pp: 2, ep: 8", more)).size();
  };
  EXPECT_EQ(recomputed(""), 6U);
  EXPECT_EQ(recomputed("pipeline: combined-1f1b\n"), 4U) << "all-to-alls run during other passes";
  EXPECT_EQ(recomputed("pipeline: combined-1f1b\noverlap: {all_to_all: false}\n"), 6U);
}

/// The cluster's names and every key stay what they were but for the axes.
TEST(AskedAxes, GridsTakeThemInFrontAndOncePerName) {
  const SweepGrid grid = asked_iteration("ep: 8");
  const SweepGrid asked = grid.with_axes(axes_of_question("tp", grid));
  const SweepGrid twice = asked.with_axes(axes_of_question("tp", asked));
  EXPECT_EQ(asked.size(), 4);
  EXPECT_EQ(twice.size(), 4);
  const SweepGrid both = asked.with_axes(axes_of_question("overlap", asked));
  ASSERT_EQ(both.axes().size(), 2U);
  EXPECT_EQ(both.axes()[0].name, "overlap");
  EXPECT_EQ(both.size(), 12);
  EXPECT_NE(both.hash(), asked.hash());
}

}  // namespace
}  // namespace moesim
