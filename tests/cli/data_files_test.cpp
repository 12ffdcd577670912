// SPDX-License-Identifier: Apache-2.0
// Data are found by name wherever the program was installed or moved, and from any folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;

const char* const tiny =
    "nodes: 1\nnode:\n  gpu: h100-sxm\n  gpus: 2\n"
    "  nvlink: {kind: switch, bandwidth: 450 GB/s, latency: 1 us}\n";

/// A program away from its build folder, in a prefix of its own.
class Moved : public testing::Test {
 protected:
  Moved() {
    fs::create_directories(prefix() / "bin");
    fs::create_directories(prefix() / "share/moesim");
    fs::create_directories(away());
    fs::copy_file(MOESIM_BINARY, prefix() / "bin/moesim");
  }
  fs::path prefix() const { return scratch_.path() / "prefix"; }
  fs::path away() const { return scratch_.path() / "away"; }
  void install() const {
    for (const char* folder : {"models", "topologies", "transports", "traces", "scenarios"}) {
      fs::create_directory_symlink(fs::path(MOESIM_ROOT) / folder,
                                   prefix() / "share/moesim" / folder);
    }
  }
  Outcome run(const std::vector<std::string>& command, const fs::path& data = {}) const {
    return run_moesim(command,
                      {.folder = away(), .data = data, .program = prefix() / "bin/moesim"});
  }

 private:
  Scratch scratch_;
};

TEST_F(Moved, DataBesideTheProgramAreFoundByName) {
  install();
  const std::vector<std::vector<std::string>> commands = {
      {"topology", "check", "h100-rail"},
      {"topology", "check", "topologies/h100-rail.yaml"},
      {"trace", "info", "tiny-moe-train", "--ranks", "2"},
      {"trace", "info", "traces/tiny-moe-train", "--ranks", "2"},
      {"plan", "dispatches", "--topology", "h100-rail", "--policy", "dedup", "--steps", "0"},
      {"plan", "scenarios/dispatches.yaml", "--topology", "h100-rail", "--policy", "dedup"}};
  for (const auto& command : commands) {
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 0) << testing::PrintToString(command) << outcome.err;
  }
}

TEST_F(Moved, AFileOfExactlyThatNameIsMeantIfNothingElseIs) {
  install();
  std::ofstream(away() / "topology.conf") << "SwitchName=s0 Nodes=n[1-2]\n";
  std::ofstream(away() / "h100-rail") << tiny;
  std::ofstream(away() / "mine") << tiny;
  EXPECT_THAT(run({"topology", "check", "topology.conf"}).err,
              HasSubstr("topology.conf: error: Slurm's topology.conf, not a topology\nhint: moesim "
                        "topology import topology.conf"));
  EXPECT_THAT(run({"topology", "show", "mine"}).out, HasSubstr("2 GPUs on 1 host"));
  EXPECT_THAT(run({"topology", "show", "h100-rail"}).out, HasSubstr("32 GPUs on 4 hosts"));
  std::ofstream(away() / "odd.txt") << "- a\n";
  for (const char* flag : {"--model", "--policy", "--transport", "--topology"}) {
    const Outcome outcome = run({"compare", "quickstart", flag, "odd.txt"});
    EXPECT_EQ(outcome.code, 2) << flag;
    EXPECT_THAT(outcome.err, HasSubstr("odd.txt:1")) << flag;
  }
}

TEST_F(Moved, TheSourceTreeIsForProgramsInTheirBuildFolder) {
  const Outcome moved = run({"topology", "check", "h100-rail"});
  EXPECT_EQ(moved.code, 2);
  EXPECT_THAT(moved.err, HasSubstr("error: no 'h100-rail' in topologies"));
  const Outcome built =
      run_moesim({"topology", "check", "h100-rail"}, {.folder = away(), .data = {}});
  EXPECT_EQ(built.code, 0) << built.err;
}

TEST_F(Moved, TheWorkingDirectoryComesBeforeTheInstallation) {
  install();
  fs::create_directory(away() / "topologies");
  for (const char* name : {"mine.yaml", "h100-rail.yaml"}) {
    std::ofstream(away() / "topologies" / name) << tiny;
  }
  for (const char* name : {"mine", "h100-rail"}) {
    EXPECT_THAT(run({"topology", "check", name}).out, HasSubstr("2 GPUs on 1 host")) << name;
  }
  EXPECT_THAT(run({"topology", "check", "h800-rail"}).out, HasSubstr("32 GPUs"));
}

TEST_F(Moved, MoesimDataStandsAlone) {
  install();
  const fs::path data = prefix() / "data";
  fs::create_directories(data / "topologies");
  std::ofstream(data / "topologies/mine.yaml") << tiny;
  EXPECT_THAT(run({"topology", "show", "mine"}, data).out, HasSubstr("2 GPUs"));
  EXPECT_THAT(run({"topology", "show", "mine", "--json", "-"}, data).out,
              HasSubstr("\"bisection\""));
  EXPECT_EQ(run({"topology", "show", "h100-rail"}, data).err,
            "error: no 'h100-rail' in topologies\nhint: known: mine\n");
  EXPECT_EQ(run({"topology", "show", "mine"}, "/no/such").err,
            "error: MOESIM_DATA is '/no/such', which is not a folder\n"
            "hint: the folder that holds models/ and topologies/\n");
}

TEST_F(Moved, FilesBesideAScenarioAreFoundFromAnywhere) {
  install();
  const fs::path project = prefix() / "project";
  fs::create_directories(project / "topologies");
  std::ofstream(project / "topologies/named.yaml") << tiny;
  std::ofstream(project / "beside.yaml") << tiny;
  for (const char* topology : {"named", "beside.yaml"}) {
    std::ofstream(project / "s.yaml") << "topology: " << topology
                                      << "\nmodel: tiny-moe\ntrace: tiny-moe-train\n"
                                         "policy: dedup\nsteps: 0\n";
    const Outcome outcome = run({"plan", (project / "s.yaml").string()});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("gpus 2"));
  }
}

TEST_F(Moved, WhatIsNowhereIsToldWithTheNearest) {
  install();
  EXPECT_EQ(run({"compare", "quikstart"}).err,
            "error: no 'quikstart' in scenarios\nhint: did you mean 'quickstart'?\n");
  EXPECT_EQ(run({"trace", "info", "tiny-moe-trian"}).err,
            "tiny-moe-trian: error: there is no such trace\n"
            "hint: did you mean 'tiny-moe-train'?\n");
  EXPECT_EQ(run({"compare", "quickstart.yaml"}).err,
            "quickstart.yaml: error: no such file\nhint: did you mean 'quickstart'?\n");
  EXPECT_THAT(run({"topology", "show", "no/such.yaml"}).err,
              HasSubstr("no/such.yaml: error: no such file"));
}

}  // namespace
}  // namespace moesim
