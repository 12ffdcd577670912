// SPDX-License-Identifier: Apache-2.0
// moesim sweep, query and report on grids over the hand-sized trace and two nodes of one GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

class SweepCommand : public testing::Test {
 protected:
  SweepCommand() { fs::copy(MOESIM_ROOT "/tests/cli/data/topologies/pair.yaml", scratch_.path()); }
  void write_grid(const std::string& axes, const std::string& file = "g.yaml") const {
    std::ofstream(scratch_.file(file)) << "topology: pair.yaml\nmodel: hand\ntrace: " MOESIM_ROOT
                                          "/tests/fixtures/traces/hand\npolicy: dedup\naxes: {" +
                                              axes + "}\n";
  }
  Outcome run(std::vector<std::string> words) const {
    if (words[0] == "sweep") words.insert(words.end(), {"-j", "1", "-q"});
    return run_moesim(words, {.folder = scratch_.path()});
  }
  /// The output of a sweep of degrees.
  Outcome degrees(const std::string& all) const {
    write_grid("ep: [" + all + "]");
    fs::remove(scratch_.file("g.sqlite"));
    return run({"sweep", "g.yaml"});
  }
  const Scratch scratch_;
};

TEST_F(SweepCommand, CountsWhatRanAndSaysWhyOthersDidNot) {
  const std::string all =
      "# g.sqlite: 3 of 3 scenarios; 2 ok, 1 unsuitable, 0 failed\n"
      "#   1 scenario: 'ep' is 3: it must divide 2 GPUs\n";
  EXPECT_EQ(degrees("1, 2, 3").out, all);
  EXPECT_EQ(run({"sweep", "g.yaml"}).out, all) << "nothing is left to run";
  EXPECT_THAT(degrees("2, 3, 5, 7, 9, 11").out, EndsWith("'ep' is 9: it must divide 2 GPUs\n"));
  EXPECT_THAT(degrees("2, 3, 5, 7, 9, 11, 13").out,
              EndsWith("'ep' is 7: it must divide 2 GPUs\n"
                       "#   ... and more: moesim query shows all reasons\n"));
}

TEST_F(SweepCommand, WithoutAnyResultItFails) {
  const Outcome none = degrees("3, 5");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.out, StartsWith("# g.sqlite: 2 of 2 scenarios; 0 ok, 2 unsuitable, 0 failed\n"));
  EXPECT_EQ(none.err,
            "error: no scenario of g.sqlite could be simulated\n"
            "hint: mend the grid, and remove the file\n");
  write_grid("trace: [/nowhere]", "away.yaml");
  const Outcome failed = run({"sweep", "away.yaml"});
  EXPECT_EQ(failed.out,
            "# away.sqlite: 1 of 1 scenario; 0 ok, 0 unsuitable, 1 failed\n"
            "#   1 scenario: /nowhere: 'trace': there is no such folder\n"
            "#   the same command tries again what failed\n");
  EXPECT_THAT(failed.err, EndsWith("hint: mend what failed; the same command tries it again\n"));
  const Outcome page = run({"report", "away.sqlite", "-o", "r.html"});
  EXPECT_EQ(page.code, 2);
  EXPECT_THAT(page.err, HasSubstr("away.sqlite: error: has no results: 1 failed of 1 scenarios\n"));
  EXPECT_THAT(run({"sweep", "g.yaml", "-o", "-"}).err, HasSubstr("which nothing prints\n"));
}

TEST_F(SweepCommand, PartsHaveTheirFilesUntilTheyMerge) {
  write_grid("ep: [1, 2, 3]");
  EXPECT_THAT(run({"sweep", "g.yaml", "--shard", "1/2"}).out,
              StartsWith("# g.sqlite.part-1-of-2: 1 of 1 scenario; 1 ok, "));
  EXPECT_THAT(run({"sweep", "g.yaml", "--shard", "0/2"}).out,
              StartsWith("# g.sqlite.part-0-of-2: 2 of 2 scenarios; 1 ok, 1 unsuitable, "));
  EXPECT_THAT(run({"sweep", "g.yaml", "--merge"}).out,
              StartsWith("# g.sqlite: 3 of 3 scenarios; 2 ok, 1 unsuitable, 0 failed\n"));
  EXPECT_FALSE(fs::exists(scratch_.file("g.sqlite.part-1-of-2")));
}

TEST_F(SweepCommand, RowsOfOtherInputsRunAgainIfAsked) {
  write_grid("ep: [1, 2]");
  ASSERT_EQ(run({"sweep", "g.yaml"}).code, 0);
  std::ofstream(scratch_.file("pair.yaml"), std::ios::app) << "# another one\n";
  EXPECT_THAT(run({"sweep", "g.yaml"}).err,
              HasSubstr("2 of its rows are not what a run makes now: the topology 'pair"));
  EXPECT_EQ(run({"sweep", "g.yaml", "--again"}).out,
            "# 2 scenarios of other inputs ran again\n"
            "# g.sqlite: 2 of 2 scenarios; 2 ok, 0 unsuitable, 0 failed\n");
}

TEST_F(SweepCommand, FlagsAloneHaveAFileOfTheirOwn) {
  const Outcome outcome = run_moesim(on_hand_trace("sweep", "pair", {"dedup"}, {"-j", "1", "-q"}),
                                     {.folder = scratch_.path()});
  EXPECT_EQ(outcome.out, "# sweep.sqlite: 1 of 1 scenario; 1 ok, 0 unsuitable, 0 failed\n");
}

TEST_F(SweepCommand, QueriesAndReportsAreOfItsFile) {
  ASSERT_EQ(degrees("1, 2, 3").code, 0);
  const auto csv = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"query", "g.sqlite", "--format", "csv"});
    return run(more).out;
  };
  /// The cells of the first column.
  const auto first = [&](const std::vector<std::string>& more) {
    std::istringstream lines(csv(more));
    std::vector<std::string> cells;
    for (std::string line; std::getline(lines, line);)
      cells.push_back(line.substr(0, line.find(',')));
    return cells;
  };
  EXPECT_THAT(first({}), ElementsAre("ep", "1", "2"));
  EXPECT_THAT(first({"--top", "1"}), ElementsAre("ep", "2"));
  EXPECT_THAT(first({"--top", "1", "--by", "-step_s"}), ElementsAre("ep", "1"));
  EXPECT_THAT(first({"--where", "ep > 1"}), ElementsAre("ep", "2"));
  EXPECT_THAT(first({"--pareto", "step_s,peak_memory_bytes"}), ElementsAre("ep", "2"));
  EXPECT_THAT(first({"--not-run"}), ElementsAre("ep", "3"));
  EXPECT_THAT(csv({"--baseline", "ep=2"}), HasSubstr(",1\n"));
  EXPECT_THAT(csv({"--group", "ep"}), StartsWith("ep,scenarios,"));
  EXPECT_THAT(csv({"--pivot", "policy,ep"}), StartsWith("policy,1"));
  const Outcome page = run({"query", "g.sqlite", "--where", "ep = 2", "--report", "-"});
  EXPECT_THAT(page.out, HasSubstr("g.sqlite"));
  EXPECT_THAT(page.err, HasSubstr("ep "));
  const Outcome none = run({"query", "g.sqlite", "--where", "ep = 7", "--report", "-"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("g.sqlite: error: no scenario matches; ep is 1, 2\n"));
  std::ofstream(scratch_.file("r.json"))
      << run_moesim(on_hand_trace("run", "pair", {"dedup"}, {"--json", "-", "-q"})).out;
  EXPECT_EQ(run({"report", "g.sqlite", "r.json", "-o", "r.html"}).code, 0);
  EXPECT_THAT(content(scratch_.file("r.html")),
              testing::AllOf(HasSubstr("g.sqlite"), HasSubstr("r.json")));
}

}  // namespace
}  // namespace moesim
