// SPDX-License-Identifier: Apache-2.0
// moesim failures on the hand-sized trace: two nodes of two GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <sstream>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;

Outcome failures(const std::vector<std::string>& policies, std::vector<std::string> more) {
  return run_moesim(on_hand_trace("failures", "two-by-two", policies, more));
}

using Row = std::map<std::string, std::string>;

std::vector<Row> rows_of(const std::string& csv) {
  std::istringstream lines(csv);
  std::vector<std::string> head;
  std::vector<Row> rows;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::vector<std::string> cells;
    std::istringstream text(line);
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    if (head.empty()) {
      head = cells;
      continue;
    }
    Row& row = rows.emplace_back();
    for (std::size_t i = 0; i < cells.size(); ++i) row[head[i]] = cells[i];
  }
  return rows;
}

double figure(const Row& row, const std::string& column) {
  for (const auto& [name, text] : row) {
    if (name.starts_with(column)) return std::stod(text);
  }
  ADD_FAILURE() << "no column " << column;
  return 0;
}

TEST(FailuresCommand, CopiesOnBothNodesOutliveOne) {
  const std::vector<std::string> flags = {
      "--node-mtbf", "2h",
      "--write",     "20 s",
      "--restart",   "300 s",
      "--pause",     "30 s",
      "--interval",  "400 s",
      "--format",    "csv",
      "--set",       "policy:dedup.placement={kind: lazarus, slots_per_gpu: 4}"};
  const Outcome outcome = failures({"megatron", "dedup"}, flags);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 3u) << outcome.out;
  EXPECT_EQ(rows[0].at("recovery"), "checkpoint");
  EXPECT_EQ(rows[2].at("recovery"), "replicas");
  EXPECT_EQ(figure(rows[2], "survived"), 1);
  EXPECT_EQ(figure(rows[0], "failures/h"), 1);
  // Daly: M = 3600 s, 400 s of steps and 20 s of writing.
  const double wall = 3600 * std::exp(300.0 / 3600) * (std::exp(420.0 / 3600) - 1);
  EXPECT_NEAR(figure(rows[0], "useful"), 400 / wall, 1e-4);
  EXPECT_GT(figure(rows[2], "useful"), figure(rows[1], "useful"));
  EXPECT_EQ(figure(rows[0], "speedup"), 1);
}

TEST(FailuresCommand, SaysThatNoCheckpointPays) {
  const Outcome outcome = failures(
      {"dedup"},
      {"--node-mtbf", "2h", "--set", "policy:dedup.placement={kind: lazarus, slots_per_gpu: 4}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("dedup +replicas .* none "));
  EXPECT_THAT(outcome.out, testing::Not(HasSubstr("8760 h")));
}

TEST(FailuresCommand, SaysLongIntervalsInHours) {
  const Outcome outcome =
      failures({"megatron"}, {"--node-mtbf", "20000h", "--write", "20 s", "--interval", "3h"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("3 h 0 min"));
  EXPECT_THAT(outcome.out, HasSubstr("# a node fails every 20000 h, 1 at once; "));
}

TEST(FailuresCommand, SaysShortTimesAsTheyAre) {
  const Outcome outcome = failures({"megatron"}, {"--node-mtbf", "10s", "--write", "20 s"});
  EXPECT_THAT(outcome.out, HasSubstr("# a node fails every 10 s, 1 at once; "));
  EXPECT_THAT(outcome.out, testing::Not(testing::ContainsRegex("[0-9]e-[0-9]")));
}

TEST(FailuresCommand, SaysIntervalsInTenthsOfMinutes) {
  const auto said = [](const std::string& interval) {
    return failures({"megatron"}, {"--node-mtbf", "20000h", "--interval", interval}).out;
  };
  EXPECT_THAT(said("30min"), HasSubstr(" 30.0 min"));
  EXPECT_THAT(said("1793 s"), HasSubstr(" 29.9 min"));
  EXPECT_THAT(said("7198 s"), HasSubstr(" 2 h 0 min"));
  EXPECT_THAT(said("10799 s"), HasSubstr(" 3 h 0 min"));
}

TEST(FailuresCommand, EveryTopologyHasItsOwnBaseline) {
  const Outcome outcome = failures(
      {"megatron"}, {"--topology", "pair", "--node-mtbf", "2h", "--format", "csv", "--ep", "2"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::map<std::string, double> first;
  for (const Row& row : rows_of(outcome.out)) {
    first.emplace(row.at("topology"), figure(row, "speedup"));
  }
  EXPECT_EQ(first, (std::map<std::string, double>{{"pair", 1}, {"two-by-two", 1}}));
}

TEST(FailuresCommand, SaysWhatWasNotRunBelowWhatWas) {
  const Outcome outcome = run_moesim(on_hand_trace(
      "failures", "pair", {"megatron"},
      {"--topology", "two-by-two", "--node-mtbf", "2h", "--ep", "4", "--format", "csv"}));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 1u) << outcome.out;
  EXPECT_EQ(rows[0].at("topology"), "two-by-two");
  EXPECT_THAT(outcome.out + outcome.err,
              HasSubstr("# megatron on pair was not run: 'ep' is 4: it must divide 2 GPUs\n"));
}

TEST(FailuresCommand, AnIntervalHasAStepAtLeast) {
  const auto rows = rows_of(
      failures({"megatron"}, {"--node-mtbf", "2h", "--interval", "1 us", "--format", "csv"}).out);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(figure(rows[0], "interval"), figure(rows[0], "step"));
}

TEST(FailuresCommand, FlagsDefaultToUsualTimes) {
  const auto shown = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--node-mtbf", "2h", "--format", "csv", "--set",
                             "policy:dedup.placement={kind: lazarus, slots_per_gpu: 4}"});
    return failures({"megatron", "dedup"}, more).out;
  };
  const std::vector<std::vector<std::string>> usual = {{"--write", "60 s"},
                                                       {"--restart", "600 s"},
                                                       {"--pause", "30 s"},
                                                       {"--replace", "0 s"},
                                                       {"--together", "1"}};
  const std::vector<std::vector<std::string>> others = {
      {"--write", "61 s"},  {"--restart", "601 s"}, {"--pause", "31 s"},
      {"--replace", "9 s"}, {"--together", "2"},    {"--interval", "400 s"}};
  const std::string by_default = shown({});
  for (const auto& flags : usual) EXPECT_EQ(shown(flags), by_default) << flags[0];
  for (const auto& flags : others) EXPECT_NE(shown(flags), by_default) << flags[0];
}

TEST(FailuresCommand, SaysWhatItNeeds) {
  EXPECT_EQ(failures({"megatron"}, {}).code, 2);
  const Outcome no_time = failures({"megatron"}, {"--node-mtbf", "often"});
  EXPECT_EQ(no_time.code, 2);
  EXPECT_THAT(no_time.err, HasSubstr("--node-mtbf: 'often' is not a time"));
}

TEST(FailuresCommand, AnEngineStartsAgainOrMasksTheNode) {
  const Outcome outcome = failures(
      {"megatron", "dedup"}, {"--node-mtbf", "2h", "--restart", "300 s", "--pause", "30 s",
                              "--replace", "600 s", "--pass", "forward", "--format", "csv", "--set",
                              "policy:dedup.placement={kind: lazarus, slots_per_gpu: 4}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 3u) << outcome.out;
  EXPECT_EQ(rows[0].at("recovery"), "restart");
  EXPECT_EQ(figure(rows[0], "writing/h"), 0);
  // Passes are short: the time to the next failure, against restarts of 900 s that may fail.
  const double down = 3600 * (std::exp(900.0 / 3600) - 1);
  EXPECT_NEAR(figure(rows[0], "useful"), 3600 / (3600 + down), 1e-4);
  // One of two nodes is missing for 600 s of each hour: a twelfth of the speed.
  EXPECT_EQ(rows[2].at("recovery"), "replicas");
  const double pause = 3600 * (std::exp(30.0 / 3600) - 1);
  EXPECT_NEAR(figure(rows[2], "useful"), 3600 / (3600 + pause) * (1 - 600.0 / 3600 / 2), 1e-4);
}

TEST(FailuresCommand, TheIntervalIsTheBestUnlessAsked) {
  const auto useful = [](const std::vector<std::string>& more) {
    std::vector<std::string> flags = {"--node-mtbf", "2h", "--write", "20 s", "--format", "csv"};
    flags.insert(flags.end(), more.begin(), more.end());
    return rows_of(failures({"megatron"}, flags).out).at(0);
  };
  // Young: the square root of two times the writing times the time between failures.
  const double young = std::sqrt(2 * 20.0 * 3600);
  const Row best = useful({});
  EXPECT_NEAR(figure(best, "interval"), young, 0.1 * young);
  for (const char* other : {"1 s", "190 s", "760 s"}) {
    EXPECT_LT(figure(useful({"--interval", other}), "useful"), figure(best, "useful")) << other;
  }
}

// Every GPU has all experts, so that the first step is whole after any loss but that of all nodes.
TEST(FailuresCommand, OneStepIsEnoughToKnowWhatSurvives) {
  const auto recoveries = [](const std::string& placement) {
    std::vector<std::string> names;
    const Outcome outcome =
        failures({"dedup"}, {"--steps", "0", "--node-mtbf", "2h", "--format", "csv", "--set",
                             "policy:dedup.placement=" + placement});
    for (const Row& row : rows_of(outcome.out)) names.push_back(row.at("recovery"));
    return names;
  };
  EXPECT_EQ(recoveries("{kind: lazarus, slots_per_gpu: 4}"),
            (std::vector<std::string>{"checkpoint", "replicas"}));
  EXPECT_EQ(recoveries("{kind: contiguous}"), std::vector<std::string>{"checkpoint"});
}

// Four nodes, of which two fail at once every hour: half of them are missing for 600 s of it.
TEST(FailuresCommand, NodesThatFailTogetherAreMissingTogether) {
  const Outcome outcome = failures(
      {"dedup"}, {"--set", "topology.nodes=4", "--repeat", "2", "--node-mtbf", "2h", "--together",
                  "2", "--pause", "30 s", "--replace", "600 s", "--pass", "forward", "--format",
                  "csv", "--set", "policy:dedup.placement={kind: lazarus, slots_per_gpu: 4}"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto rows = rows_of(outcome.out);
  ASSERT_EQ(rows.size(), 2u) << outcome.out;
  EXPECT_EQ(figure(rows[1], "survived"), 1);
  EXPECT_EQ(figure(rows[1], "failures/h"), 1);
  const double pause = 3600 * (std::exp(30.0 / 3600) - 1);
  EXPECT_NEAR(figure(rows[1], "useful"), 3600 / (3600 + pause) * (1 - 600.0 / 3600 / 2), 1e-4);
}

}  // namespace
}  // namespace moesim
