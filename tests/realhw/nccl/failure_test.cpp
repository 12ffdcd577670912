// SPDX-License-Identifier: Apache-2.0
// What goes wrong on GPUs, in the first run of a step and in replays: no rank may hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/realhw/nccl/nccl_case.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::Each;
using testing::HasSubstr;
using Fault = FakeNccl::Fault;

/// What is thrown on each rank when rank 1 meets the fault.
std::vector<std::string> thrown_under(NcclCase& c, Fault fault, int group) {
  c.nccl.plan(fault, 1, group);
  return c.run([](NcclStep& step, Job&) { step.run(true); });
}

void expect_all_aborted(NcclCase& c) {
  EXPECT_THAT(c.nccl.aborted(), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(c.nccl.hung(), 0);
  EXPECT_EQ(c.nccl.live(), 0);
  EXPECT_EQ(c.log.busy_when_freed, 0);
}

/// A full queue of CUDA would hold the host, which could not tell then that nothing moves.
TEST(NcclFailure, TheHostGoesNoMoreThan64OpsAhead) {
  RealCaseOptions o = small("laer");
  o.layers = {0, 1, 2, 3};
  NcclCase c(o, 1.0);
  c.nccl.plan(Fault::never_ends, 1);
  std::atomic<std::size_t> steps = 0;
  c.run([&](NcclStep& step, Job&) {
    steps = step.program().steps.size();
    step.run(true);
  });
  EXPECT_GT(steps, 100u) << "the case is too simple";
  EXPECT_LE(c.log.most_waiting, 2 * 65);
  expect_all_aborted(c);
}

TEST(NcclFailure, AGroupThatNeverEndsEndsAllRanks) {
  for (const int group : {0, 2}) {
    NcclCase c(small("alltoall"), 1.0);
    const auto thrown = thrown_under(c, Fault::never_ends, group);
    for (int rank = 0; rank < c.ranks(); ++rank) {
      EXPECT_THAT(thrown[static_cast<std::size_t>(rank)],
                  AllOf(HasSubstr(fmt::format("rank {}, op ", rank)),
                        HasSubstr("nothing has moved for 1 s")));
    }
    EXPECT_THAT(thrown[1],
                HasSubstr(group == 0 ? "'dispatch-alltoall'" : "'dispatch-alltoall-grad'"));
    expect_all_aborted(c);
  }
}

TEST(NcclFailure, AGroupThatNeverStartsIsNamed) {
  NcclCase c(small("alltoall"), 1.0);
  const auto thrown = thrown_under(c, Fault::never_starts, 0);
  EXPECT_THAT(thrown[1], AllOf(HasSubstr("rank 1, op "), HasSubstr("'dispatch-alltoall'"),
                               HasSubstr("starting the messages has not ended for 1 s")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

TEST(NcclFailure, AnErrorInTheBackgroundIsToldWithItsOp) {
  NcclCase c(small("alltoall"), 2.0);
  const auto thrown = thrown_under(c, Fault::fails, 1);
  EXPECT_THAT(thrown[1], AllOf(HasSubstr("rank 1, op "), HasSubstr("'combine-alltoall'"),
                               HasSubstr("unhandled system error (a cable was pulled)")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

TEST(NcclFailure, WhatAGpuSaysIsToldWithRankAndOp) {
  NcclCase c(small("alltoall"), 1.0);
  c.log.calls_until_broken = 12;  // fewer than a rank's step has: nobody is through by then
  const auto thrown = c.run([](NcclStep& step, Job&) { step.run(true); });
  EXPECT_THAT(thrown, testing::Contains(testing::ContainsRegex(
                          "^rank [0-9], op [0-9]+ '.*' of layer 1: an illegal memory access$")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

TEST(NcclFailure, AMessageOfAnotherSizeIsAnError) {
  NcclCase c(small("alltoall"), 2.0);
  const auto thrown = thrown_under(c, Fault::cuts, 0);
  EXPECT_THAT(thrown, testing::Contains(HasSubstr("invalid usage")));
}

TEST(NcclFailure, ARankThatNeverJoinsEndsAllRanks) {
  NcclCase c(small("alltoall"), 0.5);
  const auto thrown = thrown_under(c, Fault::never_joins, 0);
  EXPECT_THAT(thrown, Each(HasSubstr("joining the communicator has not ended for 0.5 s")));
  expect_all_aborted(c);
}

/// The rank's `number`-th group over a communicator, in a step that all its groups so far are of.
int group_of(FakeNccl& nccl, int rank, int communicator, int number) {
  int place = 0;
  for (const FakeNccl::Group& group : nccl.groups()) {
    if (group.rank != rank) continue;
    if (group.communicator == communicator && number-- == 0) return place;
    ++place;
  }
  ADD_FAILURE() << "the case is too simple";
  return 0;
}

/// What is thrown when rank 1 meets the fault in its second run, which is the first from a graph.
std::vector<std::string> thrown_in_a_replay(NcclCase& c, Fault fault, int communicator,
                                            int number) {
  return c.run([&](NcclStep& step, Job& job) {
    step.run(true);
    job.barrier();
    if (job.rank() == 0) {
      c.nccl.plan(fault, 1, c.nccl.groups_of(1) + group_of(c.nccl, 1, communicator, number));
    }
    job.barrier();
    step.run(false);
    step.run(false);
  });
}

/// NCCL aborts a communicator only once all graphs that hold its messages are gone.
TEST(NcclFailure, AReplayThatFailsEndsAllRanks) {
  for (const Fault fault : {Fault::never_ends, Fault::fails}) {
    NcclCase c(small("alltoall"), 1.0);
    const auto thrown = thrown_in_a_replay(c, fault, 0, 1);
    EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
    EXPECT_THAT(thrown[1], AllOf(HasSubstr("rank 1, op "), HasSubstr("'combine-alltoall'")));
    EXPECT_EQ(c.log.replays, c.ranks());
    expect_all_aborted(c);
  }
}

/// Aborting one communicator waits for streams on which messages of another still spin.
TEST(NcclFailure, SeveralCommunicatorsAreAbortedTogether) {
  for (const bool graphs : {false, true}) {
    NcclCase c(small("laer"), 1.0);
    c.options_.graphs = graphs;
    const auto thrown = thrown_in_a_replay(c, Fault::never_ends, 1, 0);
    EXPECT_THAT(thrown, Each(HasSubstr("nothing has moved for 1 s")));
    expect_all_aborted(c);
  }
}

/// In a group that is left open an abort is only queued.
TEST(NcclFailure, ASendThatIsRefusedLeavesNoGroupOpen) {
  NcclCase c(small("alltoall"), 1.0);
  const auto thrown = thrown_under(c, Fault::refuses, 1);
  EXPECT_THAT(thrown[1], AllOf(HasSubstr("'combine-alltoall'"), HasSubstr("a cable was pulled")));
  EXPECT_THAT(thrown, Each(HasSubstr("rank ")));
  expect_all_aborted(c);
}

}  // namespace
}  // namespace moesim
