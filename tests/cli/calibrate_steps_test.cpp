// SPDX-License-Identifier: Apache-2.0
// moesim calibrate steps: values of a scenario that fit the times of whole steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <regex>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;

class CalibrateStepsCommand : public testing::Test {
 protected:
  Outcome run(const std::string& measured, const std::string& fit) const {
    std::ofstream(scratch_.file("steps.csv")) << measured;
    return run_shipped({"calibrate", "steps", MOESIM_ROOT "/scenarios/iteration.yaml", "--policy",
                        "alltoall", "--routing", "balanced", "--set", "batch.global=32",
                        "--measured", scratch_.file("steps.csv"), "--fit", fit, "-o",
                        scratch_.file("fitted.yaml")});
  }
  const Scratch scratch_;
};

TEST_F(CalibrateStepsCommand, FindsTheValueThatStepsWereMadeWith) {
  const Outcome made = run_shipped({"run", MOESIM_ROOT "/scenarios/iteration.yaml", "--policy",
                                    "alltoall", "--routing", "balanced", "--set", "batch.global=32",
                                    "--set", "software.kept.gh100.bf16=0.5", "--format", "csv",
                                    "--columns", "policy,routing,iteration"});
  ASSERT_EQ(made.code, 0) << made.err;
  std::smatch seconds;
  const std::regex cell("alltoall,balanced,([0-9.]+)");
  ASSERT_TRUE(std::regex_search(made.out, seconds, cell)) << made.out;
  const Outcome fitted =
      run("name,batch.micro,seconds\nmine,," + seconds[1].str() + "\ntoo large,4,oom\n",
          "software.kept.gh100.bf16=0.3:1");
  EXPECT_EQ(fitted.code, 0) << fitted.err;
  EXPECT_THAT(fitted.out, testing::ContainsRegex("fitted: software.kept.gh100.bf16=0.(5|49|50)"));
  EXPECT_THAT(fitted.out, testing::ContainsRegex("too large +memory +oom"));
  EXPECT_THAT(content(scratch_.file("fitted.yaml")), HasSubstr("software.kept.gh100.bf16=0."));
}

// Rows of one name, whose cells are equal but in other columns.
TEST_F(CalibrateStepsCommand, TellsSettingsOfOneNameApart) {
  const Outcome outcome =
      run("name,batch.micro,parallel.pp,seconds,use\na,2,,1,fit\na,,2,1,predict\n",
          "software.kept.gh100.bf16=0.3:1");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  std::vector<std::string> simulated;
  for (const char* use : {"fit", "predict"}) {
    std::smatch row;
    const std::regex of_use("\na +" + std::string(use) + " +1 s +([0-9.]+ m?s)");
    ASSERT_TRUE(std::regex_search(outcome.out, row, of_use)) << outcome.out;
    simulated.push_back(row[1]);
  }
  EXPECT_NE(simulated[0], simulated[1]);
}

TEST_F(CalibrateStepsCommand, SaysWhereAValueIsAtItsEdgeAndWhatFits) {
  const Outcome slow =
      run("name,batch.micro,seconds\nslow,,1000\nsmall,1,oom\n", "software.kept.gh100.bf16=0.3:1");
  EXPECT_THAT(slow.out, HasSubstr("=0.3, the edge of its range: other causes are likely\n"));
  EXPECT_THAT(slow.out, testing::ContainsRegex("\nsmall +memory +oom +fits"));
  EXPECT_THAT(slow.out, testing::ContainsRegex("\nslow +fit +1000 s +[0-9.]+ m?s +-[0-9.]+ % *\n"))
      << "one value and one step: nothing is left out";
  EXPECT_THAT(slow.out, testing::Not(HasSubstr("# order of pairs")));
}

TEST_F(CalibrateStepsCommand, OrdersPairsWithAPredictedStep) {
  const Outcome outcome =
      run("name,batch.global,seconds,use\na,8,1,fit\nb,16,2,predict\n"
          "c,24,1.96,predict\nd,32,1.5,fit\ne,16,oom,\n"
          "f,16,3,predict\n",
          "software.kept.gh100.bf16=0.3:1");
  // In order: b, c and f over a. Not in order: b, c and f over d, f over c, and f over b, which is
  // the same setting. b and c are alike; a and d are fitted.
  EXPECT_THAT(outcome.out, testing::EndsWith(" that differ by over 5 %: 3 of 8\n")) << outcome.err;
  std::smatch errors;
  const std::regex of_a("\na +fit +1 s +[0-9.]+ m?s +([-+0-9.]+) % +([-+0-9.]+) %");
  ASSERT_TRUE(std::regex_search(outcome.out, errors, of_a)) << outcome.out;
  EXPECT_NE(errors[1], errors[2]) << "without it the value is another one";
}

TEST_F(CalibrateStepsCommand, SaysWhatIsWrongAndWritesNothing) {
  const auto refusal = [&](const std::string& measured, const std::string& fit) {
    const Outcome outcome = run(measured, fit);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_FALSE(fs::exists(scratch_.file("fitted.yaml")));
    return outcome.err;
  };
  const std::string kept = "software.kept.gh100.bf16=0.3:1";
  EXPECT_THAT(refusal("seconds,batch.micr\n1,2\n", kept), HasSubstr("did you mean 'micro'?"));
  EXPECT_THAT(refusal("seconds\n1\n", "software.kept.gb100.bf16=0.3:1"),
              HasSubstr("changes none of the fitted steps"));
  EXPECT_THAT(refusal("seconds\n1\n", "software.kept.gh100.bf16"), HasSubstr("no range of a key"));
}

/// Whole iterations of a dense model on grids of eight GPUs: papers/steps/ccl-bench.csv.
TEST(CalibrateDenseSteps, RanksTheGridsThatWereNotFitted) {
  const Scratch scratch;
  const std::string table = MOESIM_ROOT "/papers/steps/ccl-bench";
  const auto calibrate = [&](const std::vector<std::string>& fit) {
    std::vector<std::string> command = {"calibrate",
                                        "steps",
                                        table + ".yaml",
                                        "--measured",
                                        table + ".csv",
                                        "-o",
                                        scratch.file("fitted.yaml")};
    for (const std::string& value : fit) command.insert(command.end(), {"--fit", value});
    return run_shipped(command);
  };
  const Outcome outcome =
      calibrate({"software.kept.ga100.bf16=0.2:1", "topology.node.nics.bandwidth=0.2:25 GB/s"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Without tensor groups over both nodes all times are in the measured order.
  std::vector<double> seconds;
  for (const char* grid : {"tp4 pp2 micro 2", "tp4 pp2 micro 1", "tp4 pp2 micro 4",
                           "tp2 dp2 pp2 micro 1", "tp4 dp2 micro 2", "tp4 dp2 micro 1"}) {
    std::smatch row;
    const std::regex of_grid("\n" + std::string(grid) + " +[a-z]+ +[0-9.]+ m?s +([0-9.]+) (m?)s");
    ASSERT_TRUE(std::regex_search(outcome.out, row, of_grid)) << outcome.out;
    seconds.push_back(std::stod(row[1]) * (row[2].length() > 0 ? 1e-3 : 1));
  }
  EXPECT_TRUE(std::ranges::is_sorted(seconds)) << outcome.out;
  EXPECT_THAT(outcome.out, testing::ContainsRegex("tp2 dp4 micro 2 +memory +oom +does not fit"));
  EXPECT_THAT(outcome.out, HasSubstr("16 of 18"));
  // What was fitted is a scenario by itself, without policy and trace.
  const Outcome again = run_shipped({"run", scratch.file("fitted.yaml")});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.out, HasSubstr("no-experts"));
}

}  // namespace
}  // namespace moesim
