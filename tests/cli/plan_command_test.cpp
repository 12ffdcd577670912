// SPDX-License-Identifier: Apache-2.0
// moesim plan: printed, proved, written to a file.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/run.h"

namespace fs = std::filesystem;

namespace moesim {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

Outcome plan(const std::vector<std::string>& more, const std::string& policy = "dedup") {
  return run_moesim(on_hand_trace("plan", "pair", {policy}, more));
}

TEST(PlanCommand, PrintsThePlanOfTheFirstStep) {
  const Outcome outcome = plan({});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, StartsWith("moesim-plan 2\n"));
}

TEST(PlanCommand, ProvesDelivery) {
  const Outcome two_hops = run_moesim(
      on_hand_trace("plan", "two-by-two", {MOESIM_ROOT "/models/system/megatron-2dh.yaml"},
                    {"--check", "--ep", "4", "--transport", "ideal"}));
  EXPECT_THAT(two_hops.err, HasSubstr("every choice reaches its expert and returns once"));
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

TEST(PlanCommand, WritesMatricesForNcclTests) {
  const Scratch scratch;
  const Outcome outcome = plan({"--nccl-tests", scratch.file("matrices")});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("exchanges for alltoallv_perf on 2 GPUs in "));
  EXPECT_TRUE(fs::exists(scratch.file("matrices/index.json")));
  EXPECT_THAT(outcome.out, testing::EndsWith("/matrices\n")) << "and nothing of the plan";
  EXPECT_EQ(plan({"--nccl-tests", scratch.file("again"), "-o", scratch.file("p.json")}).code, 0);
  EXPECT_EQ(content(scratch.file("p.json")), plan({}).out) << "both are written if both are asked";
  const Outcome refused = plan({"--nccl-tests", MOESIM_ROOT "/tests"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("tests: error: is not empty and holds no export"));
}

TEST(PlanCommand, SavesAllStepsOfAllPolicies) {
  const Scratch scratch;
  const std::string file = scratch.file("hand.moesim");
  const Outcome outcome =
      run_moesim(on_hand_trace("plan", "pair", {"megatron", "dedup"}, {"--save", file}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("dedup: 2 steps for 2 GPUs"));
  EXPECT_THAT(content(file), StartsWith("\x1f\x8b"));
  const Outcome refused = plan({"--save", file, "--rows"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--save goes with no other flag of 'plan'"));
}

TEST(PlanCommand, SavesThePoliciesThatCanRun) {
  const Scratch scratch;
  const auto saved = [&](const std::vector<std::string>& policies) {
    return run_moesim(
        on_hand_trace("plan", "pair", policies,
                      {"--save", scratch.file("a"), "--set",
                       "policy:megatron.placement={kind: lazarus, slots_per_gpu: 1}"}));
  };
  const auto why = HasSubstr("'megatron' cannot place 4 experts in 1 slots on each of 2 ranks");
  const Outcome both = saved({"megatron", "dedup"});
  EXPECT_EQ(both.out, "dedup: 2 steps for 2 GPUs\n");
  EXPECT_THAT(both.err, AllOf(StartsWith("megatron: "), why));
  const Outcome none = saved({"megatron"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, AllOf(why, HasSubstr("error: no policy can run: nothing is saved\n")));
}

TEST(PlanCommand, SavingGoesAlone) {
  const Scratch scratch;
  const std::string file = scratch.file("hand.moesim");
  for (const auto& more :
       std::vector<std::vector<std::string>>{{"--rows"},
                                             {"--check"},
                                             {"-o", scratch.file("a")},
                                             {"--nccl-tests", scratch.file("n")}}) {
    std::vector<std::string> flags = {"--save", file};
    flags.insert(flags.end(), more.begin(), more.end());
    EXPECT_THAT(plan(flags).err, HasSubstr("--save goes with no other flag of 'plan'")) << more[0];
  }
  EXPECT_THAT(plan({"--save", file, "--topology", "two-by-two"}).err,
              HasSubstr("'plan --save' takes one topology"));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

TEST(PlanCommand, RefusesAFileThatCannotBeWritten) {
  const Scratch scratch;
  const Outcome outcome = plan({"-o", scratch.file("no/a.plan")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no/a.plan: error: there is no folder"));
  EXPECT_TRUE(fs::is_empty(scratch.path()));
}

}  // namespace
}  // namespace moesim
