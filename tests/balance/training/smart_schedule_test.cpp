// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/training/smart_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/base/error.h"

namespace moesim {
namespace {

using testing::ElementsAre;

bool on_compute_stream(const ScheduleStep& step) {
  return step.work == ScheduleWork::compute || step.work == ScheduleWork::shadow_compute;
}

/// One stream's steps as S0, C0, R0, and B3, X3, D3 for expert 3's broadcast, compute, reduce.
std::vector<std::string> stream(const std::vector<ScheduleStep>& steps, bool compute) {
  std::vector<std::string> names;
  for (const ScheduleStep& step : steps) {
    if (on_compute_stream(step) != compute) continue;
    const bool of_group = step.work <= ScheduleWork::receive;
    names.push_back("SCRBXD"[static_cast<std::size_t>(step.work)] +
                    std::to_string(of_group ? step.group : step.expert.value));
  }
  return names;
}

const std::vector<ExpertId> shadows = {ExpertId(5), ExpertId(3)};

TEST(SmartScheduleTest, OrdersTheStreamsOfTheForward) {
  const auto steps = smart_schedule(12, 4, shadows, SchedulePass::forward);
  EXPECT_THAT(stream(steps, false), ElementsAre("S0", "S1", "S2", "B5", "B3", "R0", "R1", "R2"));
  EXPECT_THAT(stream(steps, true), ElementsAre("C0", "C1", "C2", "X5", "X3"));
}

TEST(SmartScheduleTest, OrdersTheStreamsOfTheBackward) {
  const auto steps = smart_schedule(12, 4, shadows, SchedulePass::backward);
  EXPECT_THAT(stream(steps, false), ElementsAre("S0", "S1", "S2", "D5", "D3", "R0", "R1", "R2"));
  EXPECT_THAT(stream(steps, true), ElementsAre("X5", "X3", "C0", "C1", "C2"));
}

TEST(SmartScheduleTest, WaitsForTheOtherStream) {
  for (const auto pass : {SchedulePass::forward, SchedulePass::backward}) {
    const auto steps = smart_schedule(16, 4, shadows, pass);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const ScheduleStep& step = steps[i];
      const bool forward = pass == SchedulePass::forward;
      const bool waits = step.work == ScheduleWork::compute || step.work == ScheduleWork::receive ||
                         step.work == ScheduleWork::reduce ||
                         (forward && step.work == ScheduleWork::shadow_compute);
      ASSERT_EQ(step.after.size(), waits ? 1u : 0u);
      if (!waits) continue;
      const ScheduleStep& before = steps[static_cast<std::size_t>(step.after[0])];
      EXPECT_LT(step.after[0], static_cast<int>(i));
      EXPECT_NE(on_compute_stream(before), on_compute_stream(step));
      EXPECT_EQ(before.group, step.group);
      EXPECT_EQ(before.expert, step.expert);
    }
  }
}

/// End of the schedule when every send or receive takes `comm` and every compute `comp`.
int makespan(const std::vector<ScheduleStep>& steps, int comm, int comp) {
  std::vector<int> end;
  int free[2] = {0, 0};
  for (const ScheduleStep& step : steps) {
    int& stream_free = free[on_compute_stream(step)];
    for (const int before : step.after) {
      stream_free = std::max(stream_free, end[static_cast<std::size_t>(before)]);
    }
    stream_free += on_compute_stream(step) ? comp : comm;
    end.push_back(stream_free);
  }
  return std::max(free[0], free[1]);
}

TEST(SmartScheduleTest, OverlapsWithinThePublishedBound) {
  const auto steps = smart_schedule(16, 4, {}, SchedulePass::forward);
  EXPECT_EQ(makespan(steps, 1, 1), 8);    // four sends, four receives; compute is hidden
  EXPECT_EQ(makespan(steps, 1, 10), 42);  // a send, four computes, a receive
  EXPECT_EQ(makespan(smart_schedule(4, 4, {}, SchedulePass::forward), 4, 40), 48);  // no overlap
}

TEST(SmartScheduleTest, EveryGroupMeetsEveryGroupOnce) {
  for (int mine = 0; mine < 5; ++mine) {
    std::set<int> to;
    for (int k = 0; k < 5; ++k) {
      to.insert(send_partner(mine, k, 5));
      EXPECT_EQ(receive_partner(send_partner(mine, k, 5), k, 5), mine);
    }
    EXPECT_EQ(to.size(), 5u);
  }
}

TEST(SmartScheduleTest, GroupsAreAtMostTheWorldAndDivideIt) {
  EXPECT_EQ(smart_schedule(2, 4, {}, SchedulePass::forward).size(), 3u);
  EXPECT_THROW(smart_schedule(6, 4, {}, SchedulePass::forward), Error);
  EXPECT_THROW(smart_schedule(6, 0, {}, SchedulePass::forward), Error);
}

}  // namespace
}  // namespace moesim
