// SPDX-License-Identifier: Apache-2.0
// What commands do with what was asked, where only the outcome shows that it arrived.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;

const Surroundings with_all_data{.data = MOESIM_ROOT};

TEST(WhatIsAsked, EveryGpuAndEveryMicrobatchAreSimulatedOnRequest) {
  const auto iteration = [](const std::vector<std::string>& more) {
    std::vector<std::string> line = {"run",       "iteration", "--policy", "alltoall",
                                     "--routing", "balanced",  "--set",    "batch.global=256",
                                     "--json",    "-",         "-q"};
    line.insert(line.end(), more.begin(), more.end());
    return nlohmann::json::parse(run_moesim(line, with_all_data).out)["cases"].at(0);
  };
  const auto few = iteration({}), gpus = iteration({"--every-gpu"}),
             microbatches = iteration({"--every-microbatch"});
  EXPECT_LT(few["simulated_gpus"], few["gpus"]);
  EXPECT_GT(few["simulated_microbatches"], 0);
  EXPECT_FALSE(gpus.contains("simulated_gpus"));
  EXPECT_EQ(microbatches["simulated_gpus"], few["simulated_gpus"]);
  EXPECT_FALSE(microbatches.contains("simulated_microbatches"));
  EXPECT_NEAR(microbatches["step_s"], few["step_s"], 0.01 * few["step_s"].get<double>());
}

TEST(WhatIsAsked, RunEndsWithTheBoundsOfItsExchanges) {
  const std::string said = run_moesim(on_hand_trace("run", "pair", {"dedup"}, {"--bounds"})).out;
  const auto heading = said.find("# token exchanges of one step by themselves, ");
  ASSERT_NE(heading, std::string::npos);
  EXPECT_THAT(said.substr(heading), testing::ContainsRegex("\ntopology .* least .*\npair +dedup "));
}

TEST(WhatIsAsked, HeadersOfStepsHaveTheKeysThatAPolicyHasForItself) {
  const auto header = [](const std::vector<std::string>& more) {
    return run_moesim(on_hand_trace("compare", "pair", {"dedup", "megatron"}, more)).out;
  };
  EXPECT_THAT(header({"--set", "scenario:megatron.ep=2"}), HasSubstr("\n#   megatron: ep 2\n"));
  EXPECT_THAT(header({}), testing::Not(HasSubstr("\n#   megatron: ")));
}

TEST(WhatIsAsked, RunCountsTheCasesThatAreTooMany) {
  const auto said = [](const std::vector<std::string>& more) {
    std::vector<std::string> line = on_hand_trace("run", "pair", {"dedup"}, more);
    return run_moesim(line).err;
  };
  const std::string before = "error: 'run' takes one topology, policy and fidelity; these make ";
  EXPECT_THAT(said({"--topology", "two-by-two"}), HasSubstr(before + "2 cases\n"));
  EXPECT_THAT(said({"--policy", "megatron"}), HasSubstr(before + "2 cases\n"));
  EXPECT_THAT(said({"--fidelity", "port,analytic"}), HasSubstr(before + "2 cases\n"));
  EXPECT_THAT(said({"--topology", "two-by-two", "--policy", "megatron"}),
              HasSubstr(before + "4 cases\n"));
  EXPECT_THAT(said({"--fidelity", "port,analytic", "--policy", "megatron"}),
              HasSubstr(before + "4 cases\n"));
}

TEST(WhatIsAsked, TablesOfATopologyHaveTheColumnsAskedFor) {
  const auto shown = [](const std::string& column) {
    return run_moesim({"topology", "show", "pair", "--columns", column}).out;
  };
  EXPECT_THAT(shown("level,groups"),
              HasSubstr("\nlevel    groups\ncluster       1\nnode          2\n"));
  EXPECT_THAT(shown("bandwidth,links,tier"),
              HasSubstr("\nbandwidth  links  tier\n  10 GB/s  pcie   host\n"));
  EXPECT_THAT(shown("tier,count"), HasSubstr("\ntier    count\n"));
}

/// GPUs around a switch; GPU g is of that host.
std::string switch_of(const std::vector<std::string>& hosts, const std::string& first_gpu) {
  std::string text = "description: d\nsource: s\nvertices:\n  - {name: s, kind: leaf}\n",
              links = "links:\n";
  for (std::size_t g = 0; g < hosts.size(); ++g) {
    text += fmt::format("  - {{name: g{0}, kind: gpu, host: {1}, gpu: {2}}}\n", g, hosts[g],
                        g == 0 ? first_gpu : "round");
    links +=
        fmt::format("  - {{from: g{}, to: s, class: nic, bandwidth: 1 GB/s, latency: 1 us}}\n", g);
  }
  return text + links;
}

TEST(WhatIsAsked, TheModelOfTheFirstGpuIsChecked) {
  const Scratch scratch;
  std::ofstream(scratch.file("t.yaml")) << switch_of({"a", "b"}, "ruond");
  EXPECT_THAT(run_moesim({"topology", "check", scratch.file("t.yaml")}).err,
              HasSubstr("'gpu': no 'ruond' in models/gpu"));
}

TEST(WhatIsAsked, FailuresNeedNodesOfEquallyManyConsecutiveGpus) {
  const Scratch scratch;
  const auto failed = [&](const std::vector<std::string>& hosts) {
    std::ofstream(scratch.file("t.yaml")) << switch_of(hosts, "round");
    return run_moesim(on_hand_trace("failures", scratch.file("t.yaml"), {"dedup"},
                                    {"--node-mtbf", "2h", "--ep", "1", "--pass", "forward",
                                     "--steps", "1", "--repeat", "2", "-q"}));
  };
  const std::string message =
      "error: 'failures' needs nodes of equally many consecutive GPUs, which t does not have\n";
  EXPECT_EQ(failed({"a", "b", "b"}).err, message);
  EXPECT_EQ(failed({"a", "b", "a", "b"}).err, message);
  const Outcome even = failed({"a", "a", "b", "b"});
  EXPECT_EQ(even.code, 0) << even.err;
}

// Groups of two GPUs: of one node each on two-by-two, of both nodes on pair.
TEST(WhatIsAsked, EachClusterLosesItsOwnNodes) {
  const Outcome outcome = run_moesim(on_hand_trace(
      "failures", "pair", {"dedup"},
      {"--topology", "two-by-two", "--ep", "2", "--node-mtbf", "2h", "--pass", "forward",
       "--format", "csv", "--columns", "topology,policy,recovery,interval,step"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> rows;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("pair") || line.starts_with("two")) rows.push_back(line);
  }
  ASSERT_EQ(rows.size(), 3u) << outcome.out;
  EXPECT_THAT(rows[0], testing::MatchesRegex("pair,dedup,restart,.*"));
  EXPECT_THAT(rows[1], testing::MatchesRegex("two-by-two,dedup,restart,.*"));
  EXPECT_THAT(rows[2], testing::MatchesRegex("two-by-two,dedup,replicas,.*"));
  const auto cells = [](const std::string& row) {
    const std::size_t last = row.rfind(','), before = row.rfind(',', last - 1);
    return std::pair(row.substr(before + 1, last - before - 1), row.substr(last + 1));
  };
  EXPECT_EQ(cells(rows[0]).first, cells(rows[0]).second)
      << "what a pass has computed counts at once: the interval is a step";
}

TEST(WhatIsAsked, NamesThatAreNotKnownAreAnswered) {
  EXPECT_EQ(run_moesim({"completion", "bsh"}).err,
            "error: completion: 'bsh' is not a known shell\nhint: did you mean 'bash'?\n");
  const Scratch scratch;
  std::ofstream(scratch.file("p.json")) << "{}";
  EXPECT_EQ(run_moesim({"calibrate", "profile", scratch.file("p.json"), "-o", scratch.file("f"),
                        "--gpu", "h100-sxm", "--software", "megatron-cor"},
                       with_all_data)
                .err,
            "error: no 'megatron-cor' in models/software\nhint: did you mean 'megatron-core'?\n");
  EXPECT_THAT(run_moesim({"papers", "--traces", scratch.file("p.json")}).err,
              HasSubstr("p.json: error: no such folder\n"));
}

TEST(WhatIsAsked, DrawnTracesEndAtTheLastLayerNumber) {
  const Scratch scratch;
  const auto drawn = [&](const std::string& layers) {
    return run_moesim(
        {"trace", "synth", "-o", scratch.file("t"), "--tokens", "8", "--layers", layers});
  };
  EXPECT_EQ(drawn("99999:2").err, "error: --layers: 2 layers; there are from 1 to 1\n");
  EXPECT_EQ(drawn("0").err, "error: --layers: 0 layers; there are from 1 to 100000\n");
  const Outcome last = drawn("99999:1");
  EXPECT_EQ(last.code, 0) << last.err;
  EXPECT_THAT(content(scratch.file("t/trace.json")), HasSubstr("\"layers\": [99999]"));
}

}  // namespace
}  // namespace moesim
