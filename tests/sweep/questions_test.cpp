// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
    return axes_of_question(question, grid(nodes, more).unit(0, not_drawn));
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
  EXPECT_THAT(advise_questions(), SizeIs(8));
  for (const std::string& question : advise_questions()) {
    const auto axes = axes_of_question(question, of_scenario.unit(0, not_drawn));
    const SweepGrid asked = of_scenario.with_axes(axes);
    EXPECT_NO_THROW(asked.check_inputs()) << question;
    EXPECT_GT(asked.size(), 1) << question;
  }
}

TEST_F(QuestionsTest, UnknownOnesAreToldWithTheNearest) {
  try {
    axes("slot", "2");
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--ask: 'slot' is no question that is known"));
    EXPECT_THAT(e.what(), HasSubstr("did you mean 'slots'"));
  }
}

}  // namespace
}  // namespace moesim
