// SPDX-License-Identifier: Apache-2.0
// What flags take by themselves: their bounds, whether they must be there, and beside which others.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::StartsWith;

std::string error_on(const std::string& line) {
  std::istringstream in(line);
  const Outcome outcome = run_moesim({std::istream_iterator<std::string>(in), {}});
  EXPECT_EQ(outcome.code, 2) << line;
  EXPECT_EQ(outcome.out, "") << line;
  return outcome.err;
}

TEST(FlagRules, BoundsAreToldForWhatIsOutsideOfThem) {
  struct Bounded {
    std::string command, flag;
    int least, most;
  };
  constexpr int million = 1 << 20, most_processes = 1024;
  const std::vector<Bounded> flags = {{"advise", "--top", 1, million},
                                      {"advise", "--finals", 0, million},
                                      {"advise", "--part", 0, 1},
                                      {"advise", "--workers", 1, most_processes},
                                      {"calibrate", "--domain", 1, million},
                                      {"calibrate", "--test", 1, million},
                                      {"calibrate", "--beside", 2, million},
                                      {"calibrate", "--hold-out", 2, million},
                                      {"calibrate profile", "--hold-out", 2, million},
                                      {"calibrate profile", "--gpus-per-host", 1, million},
                                      {"compare", "--workers", 1, most_processes},
                                      {"explore", "--port", 0, 65535},
                                      {"explore", "--workers", 1, most_processes},
                                      {"failures", "--together", 1, million},
                                      {"failures", "--workers", 1, most_processes},
                                      {"papers", "--workers", 1, most_processes},
                                      {"profile import", "--unknown", 0, million},
                                      {"query", "--top", 1, 1 << 30},
                                      {"run", "--timeline-steps", 1, million},
                                      {"sweep", "--workers", 1, most_processes},
                                      {"trace check", "--interval", 0, 1 << 30},
                                      {"trace info", "--pairs", 0, 1000},
                                      {"validate profile", "--steps", 1, million},
                                      {"whatif", "--workers", 1, most_processes}};
  for (const auto& [command, flag, least, most] : flags) {
    for (const int outside : {least - 1, most + 1}) {
      EXPECT_THAT(error_on(fmt::format("{} {} {}", command, flag, outside)),
                  StartsWith(fmt::format("error: moesim {}: {}: Value {} not in range {} to {}\n",
                                         command, flag, outside, least, most)));
    }
  }
}

TEST(FlagRules, WhatACommandCannotDoWithoutIsToldFirst) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"calibrate profile", "TRACE"},
      {"calibrate profile t --gpu h100", "--out"},
      {"calibrate profile t -o f", "--gpu"},
      {"calibrate steps", "--measured"},
      {"calibrate steps --measured m.csv", "--fit"},
      {"completion", "SHELL"},
      {"export chakra", "--out"},
      {"export placement", "--format"},
      {"export rank-costs", "TOPOLOGY"},
      {"failures", "--node-mtbf"},
      {"model import", "FILE"},
      {"place", "--policy"},
      {"place --policy eplb", "--loads"},
      {"profile import", "TRACE"},
      {"query", "FILE"},
      {"report", "RESULT"},
      {"report r.json", "--output"},
      {"topology check", "name"},
      {"topology draw pair", "--out"},
      {"topology import", "FILE"},
      {"topology show", "name"},
      {"trace check", "TRACE"},
      {"trace import", "KIND"},
      {"trace import table", "--output"},
      {"trace info", "TRACE"},
      {"trace serve", "TRACE"},
      {"trace serve t --batch 1", "--output"},
      {"trace serve t -o f", "--batch"},
      {"trace slice", "TRACE"},
      {"trace slice t", "--output"},
      {"trace synth", "--output"},
      {"trace verify", "TRACE"},
      {"validate profile", "TRACE"},
      {"validate profile t", "--scenario"}};
  for (const auto& [line, flag] : lines) {
    const std::string command = line.substr(0, line.find(" t "));
    EXPECT_THAT(error_on(line), testing::ContainsRegex("^error: moesim [a-z -]+: " + flag +
                                                       " is required\nhint: moesim "))
        << line;
  }
}

TEST(FlagRules, SomeExcludeEachOther) {
  const std::vector<std::pair<std::string, std::string>> lines = {
      {"papers t.yaml --only a", "TABLE excludes --only"},
      {"papers --headlines --iterations", "--headlines excludes --iterations"},
      {"papers --headlines --serving", "--headlines excludes --serving"},
      {"papers --headlines --engines f", "--headlines excludes --engines"},
      {"trace serve t -o f --batch 1 --arrivals a --rate 1", "--arrivals excludes --rate"}};
  for (const auto& [line, pair] : lines) {
    EXPECT_THAT(error_on(line), testing::HasSubstr(": " + pair + "\n")) << line;
  }
}

TEST(FlagRules, TracesThatAreFittedOrOfAWorkloadHaveNoShapeOfTheirOwn) {
  const std::vector<std::string> shape = {"--model", "--experts", "--top-k", "--layers"},
                                 invented = {"--skew",       "--affinity", "--communities",
                                             "--stickiness", "--groups",   "--kept-groups"};
  const auto excluded = [](const std::string& by, const std::string& flag) {
    EXPECT_EQ(error_on(fmt::format("trace synth -o t {} W0 {} 1", by, flag)),
              fmt::format("error: moesim trace synth: {} excludes {}\n"
                          "hint: moesim trace synth --help tells more\n",
                          by, flag));
  };
  for (const std::string& flag : shape) excluded("--fit", flag);
  for (const std::string& flag : invented) {
    excluded("--fit", flag);
    excluded("--workload", flag);
  }
  excluded("--workload", "--fit");
  EXPECT_THAT(error_on("trace synth -o t --workload W0 --drift 1"),
              testing::HasSubstr("--drift excludes --workload\n"));
}

TEST(FlagRules, SomeAreOfSinglePassesOnly) {
  for (const char* flag : {"--bounds", "--elasticities", "--intervals", "--timeline t.json"}) {
    std::istringstream in(fmt::format("compare serving-engine --set topology.nodes=1 {}", flag));
    const Outcome outcome = run_moesim({std::istream_iterator<std::string>(in), {}},
                                       {.folder = "/tmp", .data = MOESIM_ROOT});
    EXPECT_THAT(outcome.err, testing::HasSubstr("error: --bounds, --elasticities, --intervals and "
                                                "--timeline are of single passes\n"))
        << flag;
  }
}

TEST(FlagRules, ColumnsAreKnownBeforeAComparisonRuns) {
  for (const std::string line :
       {"compare quickstart --columns polcy", "compare quickstart --sort -polcy",
        "compare iteration --columns policy,iteraton"}) {
    std::istringstream in(line);
    const Outcome outcome = run_moesim({std::istream_iterator<std::string>(in), {}},
                                       {.folder = "/tmp", .data = MOESIM_ROOT});
    EXPECT_THAT(outcome.err, testing::HasSubstr("there is no column '")) << line;
    EXPECT_THAT(outcome.err, testing::HasSubstr("hint: did you mean '")) << line;
    EXPECT_EQ(outcome.out, "") << line;
  }
}

// Else the list would take the argument behind its value.
TEST(FlagRules, AnArgumentMayFollowAFlagThatIsAList) {
  for (const char* line :
       {"advise --ask tp nosuch.yaml", "profile import --kernels nosuch.yaml t.json --unknown 0",
        "calibrate profile --kernels nosuch.yaml t.json -o f --gpu h100",
        "papers --set a=b nosuch.yaml", "query --pareto a nosuch.yaml --not-run",
        "query --group a nosuch.yaml --not-run", "query --pivot a nosuch.yaml --not-run",
        "validate --set topology.nodes=2 nosuch.yaml",
        "validate profile --kernels nosuch.yaml t.json --scenario iteration",
        "validate profile --scenario iteration --set topology.nodes=2 t.json --kernels nosuch.yaml",
        "whatif --scale nic.bandwidth=2 nosuch.yaml", "whatif --slow gpu:1=0.5 nosuch.yaml",
        "whatif --fail gpu:1 nosuch.yaml"}) {
    EXPECT_THAT(error_on(line), StartsWith("nosuch.yaml: error: ")) << line;
  }
  const Scratch scratch;
  std::ofstream(scratch.file("m.csv")) << "seconds\n1\n";
  EXPECT_THAT(
      error_on("calibrate steps --measured " + scratch.file("m.csv") + " --fit a=1:2 nosuch.yaml"),
      StartsWith("nosuch.yaml: error: "));
  for (const char* command : {"topology show", "topology check", "export rank-costs"}) {
    EXPECT_THAT(
        error_on(fmt::format("{0} --set {1} nosuch --set {1}", command, "topology.nodes=2")),
        StartsWith("error: no 'nosuch' in topologies\n"));
  }
}

TEST(FlagRules, ShardsArePartsCountedFromZero) {
  for (const char* shard : {"4/4", "-1/4", "0/0", "1", "1/4x", "1/", "a/4"}) {
    std::vector<std::string> line = on_hand_trace("sweep", "pair", {"dedup"}, {"--shard", shard});
    const Outcome outcome = run_moesim(line, {.folder = "/"});
    EXPECT_EQ(outcome.code, 2) << shard;
    EXPECT_THAT(outcome.err,
                StartsWith(fmt::format("error: --shard: '{}' is not PART/PARTS\n", shard)));
  }
}

TEST(FlagRules, SomeNeedOthers) {
  const auto refused = [](const std::string& command, const std::vector<std::string>& more) {
    const Outcome outcome = run_moesim(on_hand_trace(command, "pair", {"dedup"}, more));
    EXPECT_EQ(outcome.code, 2);
    return outcome.err;
  };
  EXPECT_EQ(refused("run", {"--timeline-ranks", "0"}),
            "error: --timeline-ranks goes with --timeline FILE\n");
  EXPECT_THAT(refused("compare", {"--expect", "nosuch.json"}),
              StartsWith("nosuch.json: error: cannot be read"));
  EXPECT_THAT(refused("compare", {"--expect", "nosuch.json", "--topology", "none"}),
              StartsWith("nosuch.json: error: cannot be read"))
      << "told before anything runs";
}

TEST(FlagRules, AskForServingStandsAloneAndWithItsBounds) {
  EXPECT_THAT(error_on("advise --ask serving,tp --sla x"),
              StartsWith("error: --ask serving together with other questions\n"));
  EXPECT_THAT(error_on("advise --ask serving"), StartsWith("error: --ask serving without --sla\n"));
  EXPECT_THAT(error_on("advise --sla x"), StartsWith("error: --sla without --ask serving\n"));
  EXPECT_THAT(error_on("advise --ask tp --sla x"),
              StartsWith("error: --sla without --ask serving\n"));
}

}  // namespace
}  // namespace moesim
