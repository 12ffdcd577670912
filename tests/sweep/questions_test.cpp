// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/questions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/sweep/advise.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> texts(const SweepAxis& axis) {
  std::vector<std::string> texts;
  for (const AxisPoint& point : axis.points) texts.push_back(point.text);
  return texts;
}

bool of_iterations(const std::string& question) {
  return std::set<std::string>{"tp", "pp", "vpp", "overlap", "recompute"}.contains(question);
}

class QuestionsTest : public testing::Test {
 protected:
  /// Of h100-rail, whose nodes have 8 GPUs.
  SweepGrid grid(const std::string& nodes, const std::string& more = "") {
    const std::string path = scratch_ / "scenario.yaml";
    write_file(path,
               "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
               "policy: hybridep-exact\nrepeat: 4\nset: [topology.nodes=" +
                   nodes + "]\n" + more);
    return SweepGrid::read(path, {});
  }
  std::vector<SweepAxis> axes(const std::string& question, const std::string& nodes,
                              const std::string& more = "") {
    return axes_of_question(question, grid(nodes, more));
  }
  ScratchFolder scratch_;
};

TEST_F(QuestionsTest, EpDegreesDivideTheGpusUpToTheExperts) {
  const auto of_48 = axes("ep-degree", "6");
  ASSERT_THAT(of_48, SizeIs(1));
  EXPECT_EQ(of_48[0].name, "ep");
  EXPECT_THAT(texts(of_48[0]), ElementsAre("1", "2", "4", "8", "16"));
  EXPECT_THAT(texts(axes("ep-degree", "16")[0]), ElementsAre("1", "2", "4", "8", "16", "32"));
}

TEST_F(QuestionsTest, EpDegreesDoNotDependOnThatOfTheScenario) {
  EXPECT_THAT(texts(axes("ep-degree", "1", "ep: 32\n")[0]), ElementsAre("1", "2", "4", "8"));
}

TEST_F(QuestionsTest, NvlinkDomainsKeepTheNumberOfGpus) {
  const auto domains = axes("nvlink-domain", "3");
  ASSERT_THAT(domains, SizeIs(1));
  EXPECT_THAT(texts(domains[0]), ElementsAre("4", "8"));
  const auto& changes = domains[0].points[0].changes;
  ASSERT_THAT(changes, SizeIs(3));
  EXPECT_EQ(changes[0].path + "=" + changes[0].value, "topology.nodes=6");
  EXPECT_EQ(changes[1].path + "=" + changes[1].value, "topology.node.gpus=4");
  EXPECT_EQ(changes[2].path + "=" + changes[2].value, "topology.node.nics.count=4");
  EXPECT_THAT(texts(axes("nvlink-domain", "16")[0]), ElementsAre("4", "8", "16", "32", "64"));
}

/// As of a node of 2 GPUs, which no node of 4 or more can be made of.
TEST_F(QuestionsTest, AnAxisWithoutPointsIsRefused) {
  const SweepGrid of_two = grid("1, topology.node.gpus=2, topology.node.nics.count=2");
  EXPECT_THAT(error_of([&] { of_two.with_axes(axes_of_question("nvlink-domain", of_two)); }),
              HasSubstr("the axis 'nvlink domain' has no point that fits the cluster"));
  std::vector<std::string> many(1001, "1");
  SweepAxis wide{"warmup", false, {}}, deep{"repeat", false, {}}, high{"layers", false, {}};
  for (SweepAxis* axis : {&wide, &deep, &high}) *axis = axis_of(axis->name, many);
  EXPECT_THAT(error_of([&] {
                of_two.with_axes({wide, deep, high});
              }),
              HasSubstr("the axes make 1e+09 scenarios"));
}

TEST_F(QuestionsTest, DomainSizesDivideEveryLevelOfAnEpGroup) {
  const auto over_hosts = axes("hybridep-domain", "2");
  ASSERT_THAT(over_hosts, SizeIs(2));
  EXPECT_THAT(texts(over_hosts[0]), ElementsAre("hybridep-exact"));
  EXPECT_THAT(texts(over_hosts[1]), ElementsAre("auto", "[1, 1]", "[1, 2]", "[1, 4]", "[1, 8]",
                                                "[2, 1]", "[2, 2]", "[2, 4]", "[2, 8]"));
  EXPECT_THAT(texts(axes("hybridep-domain", "2", "ep: 4\n")[1]),
              ElementsAre("auto", "[1]", "[2]", "[4]"));
}

/// Names and keys are those of inputs: a grid of each question can be planned.
TEST_F(QuestionsTest, EveryQuestionAsksAboutWhatThereIs) {
  const SweepGrid of_scenario = grid("2");
  EXPECT_THAT(advise_questions(), SizeIs(13));
  for (const std::string& question : advise_questions()) {
    if (of_iterations(question)) continue;
    const auto axes = axes_of_question(question, of_scenario);
    const SweepGrid asked = of_scenario.with_axes(axes);
    EXPECT_NO_THROW(asked.check_inputs()) << question;
    EXPECT_GT(asked.size(), 1) << question;
  }
}

TEST_F(QuestionsTest, QuestionsAboutIterationsNeedOne) {
  try {
    axes("recompute", "2");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--ask recompute: the scenario is one of steps"));
  }
  const SweepGrid of_scenario =
      grid("2", "parallel: {pp: 2, ep: 8}\nbatch: {global: 64, sequence: 4096}\n");
  for (const std::string& question : advise_questions()) {
    if (!of_iterations(question)) continue;
    const SweepGrid asked = of_scenario.with_axes(axes_of_question(question, of_scenario));
    EXPECT_NO_THROW(asked.check_inputs()) << question;
    EXPECT_GT(asked.size(), 1) << question;
  }
  const auto stages = axes_of_question("pp", of_scenario);
  EXPECT_THAT(texts(stages[0]), testing::IsSupersetOf({"1 x 1", "2 x 1", "2 x 2", "16 x 1"}));
  EXPECT_THAT(texts(axes_of_question("vpp", of_scenario)[0]),
              ElementsAre("2 x 1", "2 x 2", "2 x 4", "2 x 8"));
  EXPECT_THAT(texts(axes_of_question("tp", of_scenario)[0]), ElementsAre("1", "2", "4", "8"));
}

TEST_F(QuestionsTest, OneStageHasOneChunk) {
  try {
    axes("vpp", "2", "parallel: {ep: 8}\nbatch: {global: 64, sequence: 4096}\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--ask vpp: the scenario has one pipeline stage"));
  }
}

/// Slots of the scenario's own policies, from as many as hold each of 32 experts once on 16 GPUs.
TEST_F(QuestionsTest, SlotsAreThoseOfTheScenariosBalancers) {
  const auto of = [&](const std::string& policy) {
    const std::string path = scratch_ / "balanced.yaml";
    write_file(path, "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: " +
                         policy + "\nset: [topology.nodes=2]\n");
    return axes_of_question("slots", SweepGrid::read(path, {}));
  };
  const auto eplb = of("eplb");
  ASSERT_THAT(eplb, SizeIs(2));
  EXPECT_THAT(texts(eplb[0]), ElementsAre("eplb"));
  EXPECT_EQ(eplb[1].name, "policy.placement.slots_per_gpu");
  EXPECT_THAT(texts(eplb[1]), ElementsAre("2", "3", "4", "6", "10"));
  EXPECT_THAT(texts(of("[alltoall, laer]")[0]), ElementsAre("laer"));
  EXPECT_THAT(texts(of("alltoall")[0]), ElementsAre("laer"));
  const auto both = of("[eplb, laer]");
  ASSERT_THAT(both, SizeIs(1));
  EXPECT_THAT(texts(both[0]), SizeIs(10));
  EXPECT_EQ(both[0].points[9].text, "laer, 10 slots");
}

/// All over the same steps; each interval has whole ones: as many moves as intervals.
TEST_F(QuestionsTest, IntervalsDivideTheStepsThatTheyAreSimulatedOver) {
  for (const std::string more : {"", "steps: 3:17\n", "steps: 4:16\nwarmup: 2\n"}) {
    const SweepGrid of_scenario = grid("2", more);
    const auto intervals = axes_of_question("eplb-interval", of_scenario);
    ASSERT_THAT(intervals, SizeIs(2));
    EXPECT_THAT(texts(intervals[1]), testing::IsSupersetOf({"1", "2", "4", "8"})) << more;
    const SweepGrid asked = of_scenario.with_axes(intervals);
    for (std::int64_t unit = 0; unit < asked.units(); ++unit) {
      const Scenario s = asked.unit(unit);
      const int interval = std::stoi(intervals[1].points[static_cast<std::size_t>(unit)].text);
      EXPECT_EQ((s.steps.last - s.steps.first) % interval, 0) << more;
      EXPECT_EQ(s.steps.last, asked.unit(0).steps.last);
      EXPECT_GE(s.warmup, 1);
      EXPECT_THAT(s.overrides_of("policy", "eplb"),
                  testing::Contains(testing::Field(&Override::path, "placement.first")));
    }
  }
  try {
    axes("eplb-interval", "2", "steps: 0:2\n");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("an interval of 2 needs 3 steps, not 2"));
  }
}

/// The first of 600 steps has no loads to plan by; 512 of the others are four of the longest.
TEST_F(QuestionsTest, IntervalsOfManyStepsAreSimulatedOverAllThatTheyDivide) {
  const SweepGrid of_scenario =
      grid("2", "parallel: {ep: 16}\nbatch: {global: 16, sequence: 64}\nsteps: 0:600\n");
  const auto intervals = axes_of_question("eplb-interval", of_scenario);
  ASSERT_THAT(intervals, SizeIs(2));
  EXPECT_THAT(texts(intervals[1]), ElementsAre("1", "2", "4", "8", "16", "32", "64", "128"));
  for (const AxisPoint& point : intervals[1].points) {
    ASSERT_THAT(point.changes, SizeIs(4));
    EXPECT_EQ(point.changes[1].value, "1") << "the step of the first plan";
    EXPECT_EQ(point.changes[2].path + "=" + point.changes[2].value, "steps=1:513");
    EXPECT_EQ(point.changes[3].path + "=" + point.changes[3].value, "warmup=1");
  }
}

TEST_F(QuestionsTest, UnknownOnesAreToldWithTheNearest) {
  try {
    axes("slot", "2");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--ask: 'slot' is not a known question"));
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'slots'"));
  }
}

}  // namespace
}  // namespace moesim
