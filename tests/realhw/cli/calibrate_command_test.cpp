// SPDX-License-Identifier: Apache-2.0
// moesim-hw calibrate: measuring, resuming, saving and fitting, with a cluster of one GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "sim/base/files.h"
#include "tests/realhw/cli/hw_program.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

/// One cheap round.
Words one_round() { return {"--quick", "--rounds", "1", "--longest", "0.001", "--rows", "1"}; }

class HardwareCalibration : public HardwareInFolder {
 protected:
  HwSaid calibrate(const Words& words) const { return said_by_hw(with({"calibrate"}, words)); }
  /// Saves the plans of a cheap round, with further flags.
  HwSaid save(const std::string& name, const Words& more = {}) const {
    return calibrate(with(with(with(one_gpu(), one_round()), {"--save", in_folder(name)}), more));
  }
  /// Measures saved plans, which writes nothing but times.
  HwSaid measure(const std::string& name, const Words& more = {}) const {
    return calibrate(with({"--saved", in_folder(name), "-o", in_folder("mine")}, more));
  }
  std::string times() const { return read_file(in_folder("mine.times.jsonl")); }
  void write_times(const std::string& text) const {
    write_file(in_folder("mine.times.jsonl"), text);
  }
};

TEST_F(HardwareCalibration, MeasuresAndFits) {
  const HwSaid said = calibrate(with(with(one_gpu(), one_round()), {"-o", in_folder("mine")}));
  EXPECT_EQ(said.code, 0);
  EXPECT_TRUE(said.job_ended);
  EXPECT_THAT(said.out,
              AllOf(testing::StartsWith("# moesim-hw calibrate, "), HasSubstr(" plans, 1 round: "),
                    HasSubstr("mine.calib.yaml: take it")));
  EXPECT_THAT(said.err, HasSubstr("warning: 'node.nvlink' joins nothing"));
  EXPECT_THAT(files(), testing::IsSupersetOf({"mine.calib.yaml", "mine.times.jsonl"}));
}

TEST_F(HardwareCalibration, SavesWhatAnotherMachineMeasures) {
  const HwSaid saved = save("plans");
  EXPECT_EQ(saved.code, 0);
  EXPECT_THAT(saved.out,
              testing::ContainsRegex("plans: [0-9]+ plans, 1 round, for 1 rank \\(h100"));
  EXPECT_THAT(saved.err, HasSubstr("warning: 'node.nvlink' joins nothing"));
  EXPECT_THAT(files(), ElementsAre("plans")) << "nothing is measured";

  const HwSaid measured = measure("plans");
  EXPECT_EQ(measured.code, 0);
  EXPECT_THAT(measured.out, HasSubstr("calibrate --times mine.times.jsonl -o mine\n"));
  EXPECT_THAT(files(), ElementsAre("mine.times.jsonl", "plans"));

  const HwSaid fitted =
      calibrate({"--times", in_folder("mine.times.jsonl"), "-o", in_folder("fitted")});
  EXPECT_EQ(fitted.code, 0);
  EXPECT_THAT(fitted.out, HasSubstr("fitted.calib.yaml: take it by"));
  EXPECT_THAT(files(), testing::Contains("fitted.calib.yaml"));
}

TEST_F(HardwareCalibration, ResumesWhatWasInterrupted) {
  ASSERT_EQ(save("plans").code, 0);
  EXPECT_EQ(measure("plans", {"--resume"}).code, 0) << "begins when there is nothing yet";
  const std::string all = times();
  const std::string most = all.substr(0, all.rfind('\n', all.size() - 2) + 1);
  write_times(most);
  EXPECT_EQ(measure("plans", {"--resume"}).code, 0);
  const std::string resumed = times();
  EXPECT_THAT(resumed, testing::StartsWith(most));
  EXPECT_EQ(std::ranges::count(resumed, '\n'), std::ranges::count(all, '\n'));
  EXPECT_EQ(measure("plans", {"--resume"}).code, 0);
  EXPECT_EQ(times(), resumed) << "there is nothing left to measure";
  EXPECT_EQ(measure("plans").code, 0);
  EXPECT_THAT(times(), testing::Not(testing::StartsWith(most)))
      << "without --resume it begins anew";
}

TEST_F(HardwareCalibration, DoesNotResumeOtherTimes) {
  ASSERT_EQ(save("plans").code, 0);
  ASSERT_EQ(save("others", {"--set", "model.expert_ffn=8"}).code, 0);
  ASSERT_EQ(measure("plans").code, 0);
  const auto refused = [&](const std::string& plans, const char* why) {
    const HwSaid said = measure(plans, {"--resume"});
    EXPECT_EQ(said.code, 2) << why;
    EXPECT_THAT(said.err, HasSubstr(why));
    EXPECT_EQ(said.out, "") << why;
  };
  refused("others", "mine.times.jsonl: error: these times are of other plans");
  std::string text = times();
  text.replace(text.find("\"round\":0"), 9, "\"round\":7");
  write_times(text);
  refused("plans", "in round 8 do not fit the plan");
  write_times("something else\n");
  refused("plans", "this is not a file of times");
  std::filesystem::remove(in_folder("mine.times.jsonl"));
  std::filesystem::create_directory(in_folder("mine.times.jsonl"));
  refused("plans", "mine.times.jsonl: error: is a folder");
}

TEST_F(HardwareCalibration, CountsProcessesOnlyWhereItMeasures) {
  const Words four = {"--topology",           "h100-rail", "--set",    "topology.nodes=1", "--set",
                      "topology.node.gpus=4", "--model",   "tiny-moe", "--quick"};
  const HwSaid saved = calibrate(with(four, {"--save", in_folder("four")}));
  EXPECT_EQ(saved.code, 0);
  EXPECT_THAT(saved.out, HasSubstr(", 2 rounds, for 4 ranks ("));
  for (const Words& source : {four, Words{"--saved", in_folder("four")}}) {
    const HwSaid said = calibrate(with(source, {"-o", in_folder("mine")}));
    EXPECT_EQ(said.code, 2);
    EXPECT_THAT(said.err, HasSubstr("has 4 GPUs, but 1 process runs"));
  }
}

TEST_F(HardwareCalibration, SaysWhatIsMissing) {
  const std::pair<Words, const char*> calls[] = {
      {one_gpu(), "--out is missing"},
      {{"--times", "t"}, "--out is missing"},
      {{"-o", in_folder("mine")}, "--topology is missing"},
      {{"-o", in_folder("mine"), "--topology", "h100-rail"}, "--model is missing"},
      {{"-o", in_folder("mine"), "--model", "tiny-moe"}, "--topology is missing"},
      {with(one_gpu(), {"--save", "/no/such/folder/plans"}), "there is no folder"},
      {with(one_gpu(), {"-o", "/no/such/folder/mine"}), "/no/such/folder/mine.times.jsonl"},
      {with(one_gpu(), {"-o", in_folder("mine"), "--fault", "kill:fc1@1"}), "there is no rank 1"}};
  for (const auto& [words, message] : calls) {
    const HwSaid said = calibrate(words);
    EXPECT_EQ(said.code, 2) << message;
    EXPECT_THAT(said.err, HasSubstr(message));
    EXPECT_FALSE(said.job_ended);
  }
  EXPECT_THAT(files(), testing::IsEmpty());
}

TEST_F(HardwareCalibration, KeepsItsNumbersInRange) {
  const std::pair<Words, const char*> wrong[] = {
      {{"--rounds", "0"}, "range 1 to 1000"},   {{"--rounds", "1001"}, "range 1 to 1000"},
      {{"--longest", "0"}, "not in range"},     {{"--longest", "1e7"}, "not in range"},
      {{"--rows", "0"}, "range 1 to 16777216"}, {{"--rows", "16777217"}, "1 to 16777216"}};
  for (const auto& [words, message] : wrong) {
    const HwSaid said = calibrate(with(with(one_gpu(), words), {"--save", in_folder("plans")}));
    EXPECT_EQ(said.code, 2) << words[1];
    EXPECT_THAT(said.err, HasSubstr(message));
  }
}

/// What is measured elsewhere, or measured already, takes no flags of measuring.
TEST_F(HardwareCalibration, FlagsOfMeasuringDoNotGoWithOtherSources) {
  const std::vector<Words> source = {{"--topology", "h100-rail"},
                                     {"--model", "tiny-moe"},
                                     {"--set", "model.hidden=8"},
                                     {"--quick"},
                                     {"--rounds", "2"},
                                     {"--longest", "1"},
                                     {"--rows", "2"}};
  const std::vector<Words> measuring = {{"--resume"},
                                        {"--backend", "mpi"},
                                        {"--mpi-calls", "p2p"},
                                        {"--together"},
                                        {"--timeout", "3"},
                                        {"--fault", "kill:fc1@0"},
                                        {"--matrices", "float32"},
                                        {"--gemm", "grouped"},
                                        {"--no-graph"}};
  const auto excluded = [&](const Words& words, const Words& by) {
    const HwSaid said = calibrate(with(words, by));
    EXPECT_EQ(said.code, 2) << words[0] << " and " << by[0];
    const bool told = said.err.find(words[0] + " excludes " + by[0]) != std::string::npos ||
                      said.err.find(by[0] + " excludes " + words[0]) != std::string::npos;
    EXPECT_TRUE(told) << said.err;
  };
  for (const Words& flag : source) {
    excluded(flag, {"--saved", "no-such"});
    excluded(flag, {"--times", "no-such"});
  }
  for (const Words& flag : measuring) {
    excluded(flag, {"--times", "no-such"});
    excluded(flag, {"--save", in_folder("plans")});
  }
  excluded({"--saved", "no-such"}, {"--times", "no-such"});
  excluded({"--saved", "no-such"}, {"--save", in_folder("plans")});
  excluded({"--times", "no-such"}, {"--save", in_folder("plans")});
  excluded({"--out", "mine"}, {"--save", in_folder("plans")});
}

}  // namespace
}  // namespace moesim
