// SPDX-License-Identifier: Apache-2.0
// moesim plan: printed, proved, written to a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

Outcome plan(const std::vector<std::string>& more, const std::string& policy = "dedup") {
  return run_moesim(on_hand_trace("plan", "pair", {policy}, more));
}

TEST(PlanCommand, PrintsThePlanOfTheFirstStep) {
  const Outcome outcome = plan({});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("moesim-plan 1\n"));
}

TEST(PlanCommand, ProvesDelivery) {
  for (const char* policy : {"megatron", "dedup"}) {
    const Outcome checked = plan({"--check"}, policy);
    EXPECT_EQ(checked.code, 0);
    EXPECT_THAT(checked.err, HasSubstr("every choice reaches its expert and returns once"));
    EXPECT_EQ(checked.out, plan({}, policy).out);
  }
}

TEST(PlanCommand, RowsAreShownOnRequest) {
  EXPECT_GT(plan({"--rows"}).out.size(), plan({}).out.size());
}

TEST(PlanCommand, WritesToAFile) {
  const Scratch scratch;
  const Outcome outcome = plan({"-o", scratch.file("a.plan")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(content(scratch.file("a.plan")), plan({}).out);
}

TEST(PlanCommand, RefusesAFileThatCannotBeWritten) {
  const Scratch scratch;
  const Outcome outcome = plan({"-o", scratch.file("no/a.plan")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no/a.plan: error: cannot be written"));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace moesim
