// SPDX-License-Identifier: Apache-2.0
// moesim topology: what it shows and finds in hand-sized clusters.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

Outcome topology(const std::string& command, const std::string& name,
                 const std::vector<std::string>& more = {}) {
  std::vector<std::string> line = {"topology", command, name};
  line.insert(line.end(), more.begin(), more.end());
  return run_moesim(line);
}

TEST(TopologyCommand, ShowsLevelsLinksAndBandwidths) {
  EXPECT_EQ(topology("show", "pair").out,
            "pair: 2 GPUs on 2 hosts, exchange overhead 10 us\n\n"
            "level    groups  GPUs each\n"
            "cluster       1          2\n"
            "node          2          1\n\n"
            "links  tier    count  bandwidth  latency\n"
            "pcie   host        4    10 GB/s     0 ns\n"
            "nic    fabric      4    10 GB/s     2 us\n\n"
            "one direction           bandwidth\n"
            "out of a GPU, pcie        10 GB/s\n"
            "out of a node             10 GB/s\n"
            "bisection, 1 | 1 nodes    10 GB/s\n");
}

TEST(TopologyCommand, OneGpuHasNoBisection) {
  const Outcome alone =
      topology("show", "pair", {"--set", "topology.nodes=1", "--json", "-", "--quiet"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_THAT(alone.err, Not(HasSubstr("warning"))) << "who asks for one node knows of the fabric";
  EXPECT_THAT(alone.err, Not(HasSubstr("bisection")));
  EXPECT_FALSE(Json::parse(alone.out).contains("bisection"));
}

TEST(TopologyCommand, NodesWithoutNicsSendNothingOut) {
  const Scratch scratch;
  const Outcome shown = topology("show", "two-by-two");
  EXPECT_THAT(shown.out, HasSubstr("out of a node"));
  const Outcome alone = run_moesim({"topology", "show", "two-by-two", "--set", "topology.nodes=1",
                                    "--set", "topology.node.nics=null"});
  EXPECT_EQ(alone.code, 0) << alone.err;
  EXPECT_THAT(alone.out, AllOf(HasSubstr("2 GPUs on 1 host, "), HasSubstr("bisection, 1 | 1 "),
                               Not(HasSubstr("out of a node"))));
}

TEST(TopologyCommand, DocumentsAreInBytesPerSecondAndSeconds) {
  const Outcome shown = topology("show", "pair", {"--json", "-"});
  const Json json = Json::parse(shown.out);
  EXPECT_EQ(shown.out, json.dump(2) + "\n");
  EXPECT_EQ(json["name"], "pair");
  EXPECT_EQ(json["gpus"], 2);
  EXPECT_EQ(json["hosts"], 2);
  EXPECT_DOUBLE_EQ(json["exchange_overhead"], 10e-6);
  EXPECT_EQ(json["levels"], Json::parse(R"([
      {"name": "cluster", "groups": 1, "gpus": {"least": 2, "most": 2}},
      {"name": "node", "groups": 2, "gpus": {"least": 1, "most": 1}}])"));
  const Json rate = Json::parse(R"({"least": 1e10, "most": 1e10})");
  ASSERT_EQ(json["links"].size(), 2u);
  EXPECT_EQ(json["links"][0]["class"], "pcie");
  EXPECT_EQ(json["links"][0]["tier"], "host");
  EXPECT_EQ(json["links"][1]["tier"], "fabric");
  EXPECT_EQ(json["links"][1]["count"], 4);
  EXPECT_EQ(json["links"][1]["bandwidth"], rate);
  EXPECT_EQ(json["links"][1]["latency"], Json::parse(R"({"least": 2e-6, "most": 2e-6})"));
  EXPECT_EQ(json["gpu_out"]["pcie"], rate);
  EXPECT_EQ(json["node_out"], rate);
  EXPECT_EQ(json["bisection"],
            Json::parse(R"({"level": "node", "first": 1, "second": 1, "bandwidth": 1e10})"));
  EXPECT_EQ(json["file"]["node"]["gpus"], 1);
}

/// 24 GPUs of three kinds of nodes in one data center, 16 in another.
TEST(TopologyCommand, WhatDiffersIsARange) {
  const Outcome shown = run_moesim({"topology", "show", "heterogeneous", "--format", "csv"},
                                   {.folder = MOESIM_ROOT, .data = MOESIM_ROOT});
  ASSERT_EQ(shown.code, 0) << shown.err;
  for (const char* row :
       {"level,groups,GPUs each\ncluster,1,40\ndata center,2,16 ... 24\nnode,6,4 ... 8\n",
        "links,tier,count,bandwidth [B/s],latency [s]\n"
        "nvlink,host,56,100 GB/s ... 450 GB/s,500 ns ... 1 us\n"
        "pcie,host,104,32 GB/s ... 64 GB/s,5e-07\n",
        "one direction,bandwidth [B/s]\n\"out of a GPU, nvlink\",0 B/s ... 450 GB/s\n",
        "\"bisection, 1 | 1 data centers\",12500000000\n"}) {
    EXPECT_THAT(shown.out, HasSubstr(row));
  }
}

TEST(TopologyCommand, CheckCountsAndNamesWhatIsAssumed) {
  const Outcome sound = topology("check", "pair");
  EXPECT_EQ(sound.err, "");
  EXPECT_EQ(sound.out,
            "pair: 2 GPUs on 2 hosts, 8 links; every GPU reaches every other; 0 warnings\n");
  EXPECT_THAT(topology("check", "pair", {"--set", "topology.nodes=1"}).out,
              HasSubstr("1 GPU on 1 host, 4 links; every GPU reaches every other; 0 warnings\n"));
  const Outcome assumed =
      run_moesim({"topology", "check", "h100-rail"}, {.folder = MOESIM_ROOT, .data = MOESIM_ROOT});
  EXPECT_EQ(assumed.out,
            "h100-rail: 32 GPUs on 4 hosts, 192 links; every GPU reaches every other; 0 warnings\n"
            "4 values are assumed: measure them (moesim-hw calibrate), or ask the vendor\n"
            "  nodes 4\n  node.nvlink.latency 0.5 us\n  node.pcie.latency 0.5 us\n"
            "  node.nics.latency 1 us\n");
}

TEST(TopologyCommand, SlowNodesSendSomethingOut) {
  EXPECT_THAT(topology("show", "pair", {"--set", "topology.node.nics.bandwidth=1 B/s"}).out,
              HasSubstr("\nout of a node               1 B/s\n"));
}

/// Two GPUs with a cable between them, and switches without any.
std::string idle_switches(int count) {
  std::string text = "description: d\nsource: s\nvertices:\n";
  for (const char* host : {"a", "b"}) {
    text += fmt::format("  - {{name: {0}.gpu, kind: gpu, host: {0}, gpu: round}}\n", host);
  }
  for (int i = 0; i < count; ++i) text += fmt::format("  - {{name: s{}, kind: leaf}}\n", i);
  return text +
         "links:\n  - {from: a.gpu, to: b.gpu, class: nic, bandwidth: 1 GB/s, latency: 1 us}\n";
}

TEST(TopologyCommand, CheckNamesTwentyOdditiesAndCountsThem) {
  const Scratch scratch;
  const auto checked = [&](int count) {
    std::ofstream(scratch.file("idle.yaml")) << idle_switches(count);
    return topology("check", scratch.file("idle.yaml"));
  };
  const Outcome two = checked(2);
  EXPECT_EQ(two.err, "idle: warning: s0 has no links\nidle: warning: s1 has no links\n");
  EXPECT_EQ(two.out,
            "idle: 2 GPUs on 2 hosts, 2 links; every GPU reaches every other; 2 warnings\n");
  const Outcome twenty = checked(20);
  EXPECT_THAT(twenty.err, AllOf(HasSubstr("s19 has no links\n"), Not(HasSubstr(" more"))));
  const Outcome many = checked(22);
  EXPECT_THAT(many.err,
              AllOf(HasSubstr("s19 has no links\nidle: ... and 2 more\n"), Not(HasSubstr("s20"))));
  EXPECT_THAT(many.out, HasSubstr("; 22 warnings\n"));
}

TEST(TopologyCommand, DrawsIntoAFileThatStays) {
  const Scratch scratch;
  const Outcome drawn = topology("draw", "pair", {"-o", scratch.file("p.dot")});
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_THAT(content(scratch.file("p.dot")), testing::StartsWith("digraph topology {\n"));
  EXPECT_EQ(topology("draw", "pair", {"-o", scratch.file("no/p.dot")}).code, 2);
  EXPECT_EQ(topology("draw", "pair", {"-o", scratch.file("p.txt")}).code, 2);
}

TEST(TopologyCommand, CheckFindsUnknownGpuModels) {
  const Outcome unknown = topology("check", "pair", {"--set", "topology.node.gpu=ruond"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("pair: error: 'gpu': no 'ruond' in models/gpu"),
                                 HasSubstr("hint: did you mean 'round'?")));
}

TEST(TopologyCommand, ImportWarnsOfWhatItLeavesOut) {
  const Scratch scratch;
  const std::string file = scratch.file("topology.conf"), out = scratch.file("t.yaml");
  std::ofstream(file) << "SwitchName=s0 Nodes=n[1-4]\nSwitchName=s1 Nodes=n[3-6]\n"
                         "SwitchName=s2 Switches=s[0-1]\n";
  EXPECT_THAT(run_shipped({"topology", "import", file, "-o", out}).err,
              HasSubstr(out + ": warning: leaves out: topology.conf: the second leaf of 2 hosts, "
                              "first n3\n"));
  std::ofstream(file) << "SwitchName=s0 Nodes=n[1-4]\n";
  EXPECT_EQ(run_shipped({"topology", "import", file, "-o", out}).err, "");
}

TEST(TopologyCommand, ImportTakesOnlyGpuModelsThatAreThere) {
  const Scratch scratch;
  const std::string file = scratch.file("smi.txt");
  std::ofstream(file) << "GPU0 GPU1\nGPU0 X NV18\nGPU1 NV18 X\n";
  const auto with_gpu = [&](const std::string& gpu) {
    return run_shipped({"topology", "import", file, "--gpu", gpu});
  };
  EXPECT_EQ(with_gpu("h100-measured").code, 0);
  for (const char* gpu : {"H100", "nosuch"}) {
    const Outcome refused = with_gpu(gpu);
    EXPECT_EQ(refused.code, 2) << gpu;
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr(fmt::format("error: --gpu: no '{}' in models/gpu\n", gpu)));
  }
  EXPECT_THAT(with_gpu("H100").err, HasSubstr("hint: did you mean 'h100-measured'?"));
}

}  // namespace
}  // namespace moesim
