// SPDX-License-Identifier: Apache-2.0
// One step of a rank, measured and simulated, as lanes: which rank, which kernels.
#include "sim/profile/both_timelines.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

/// One rank with a kernel every 10 ticks: the i-th takes `length(i)` on stream i % 2.
template <class Length>
Profile profile_of(int rank, int kernels, const Length& length) {
  Profile profile;
  ProfiledRank& r = profile.ranks.emplace_back();
  r.rank = rank;
  r.streams = {"7", "empty", "20"};
  for (int i = 0; i < kernels; ++i) {
    ProfiledKernel& kernel = r.kernels.emplace_back();
    kernel.start = 100 + ProfileTicks{10} * i;
    kernel.length = length(i);
    kernel.stream = i % 2 == 0 ? 0 : 2;
    kernel.kind = KernelKind::gemm;
  }
  return profile;
}

TEST(BothTimelines, ShowTheRankThatBothHave) {
  Profile measured = profile_of(3, 2, [](int) { return 4; });
  measured.ranks.push_back(profile_of(5, 4, [](int) { return 5; }).ranks.front());
  const Profile simulated = profile_of(5, 3, [](int) { return 6; });
  const BothTimelines both = both_timelines(measured, simulated, 1);
  EXPECT_EQ(both.measured_rank, 5);
  EXPECT_EQ(both.simulated_rank, 5);
  ASSERT_EQ(both.lanes.size(), 4u);  // no lane for a stream without kernels
  EXPECT_TRUE(both.lanes[1].measured);
  EXPECT_EQ(both.lanes[1].stream, "20");
  ASSERT_EQ(both.lanes[1].bars.size(), 2u);
  EXPECT_EQ(both.lanes[1].bars[0].start, 10);
  EXPECT_EQ(both.lanes[1].bars[0].length, 5);
  EXPECT_FALSE(both.lanes[2].measured);
  EXPECT_EQ(both.length, 35);
  EXPECT_EQ(both.left_out, 0);
  EXPECT_EQ(both_timelines(profile_of(1, 1, [](int) { return 1; }), simulated, 1).measured_rank, 1);
  measured.ranks.push_back(profile_of(7, 1, [](int) { return 5; }).ranks.front());
  EXPECT_EQ(both_timelines(measured, simulated, 1).measured_rank, 5);
  EXPECT_EQ(both.lanes[1].bars[0].waiting, 0);
}

TEST(BothTimelines, ShowTheFirstStep) {
  Profile measured = profile_of(0, 8, [](int) { return 5; });
  const Profile simulated = profile_of(0, 1, [](int) { return 5; });
  EXPECT_EQ(both_timelines(measured, simulated, 2).lanes[0].bars.size(), 2u);  // half of the time
  measured.ranks.front().steps = {{115, 145}, {145, 175}};
  const BothTimelines both = both_timelines(measured, simulated, 0);
  EXPECT_EQ(both.lanes[0].bars.size() + both.lanes[1].bars.size(), 3u);
  EXPECT_EQ(both.lanes[0].bars.front().start, 0);  // the kernel at 120
}

TEST(BothTimelines, LeaveOutTheShortestOfVeryMany) {
  const Profile measured = profile_of(0, 8002, [](int i) { return i == 4 || i == 9 ? 1 : 5; });
  const BothTimelines both = both_timelines(measured, profile_of(0, 1, [](int) { return 5; }), 1);
  EXPECT_EQ(both.left_out, 2);
  EXPECT_EQ(both.lanes[0].bars.size() + both.lanes[1].bars.size(), 8000u);
  for (const ProfileBar& bar : both.lanes[0].bars) EXPECT_EQ(bar.length, 5);
}

}  // namespace
}  // namespace moesim
