// SPDX-License-Identifier: Apache-2.0
#include "sim/print/progress_line.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(ProgressLine, TellsRateAndTimeLeft) {
  EXPECT_EQ(pace_text(4, 0.25, 6, "steps"), "1.5 steps/s, 12 s left");
  EXPECT_EQ(pace_text(60, 0.1, 0, ""), "9 min left");
  EXPECT_EQ(pace_text(3600, 0.25, 0, ""), "3 h 0 min left");
  EXPECT_EQ(pace_text(3, 0, 6, "steps"), "2 steps/s");
  EXPECT_EQ(pace_text(3, 1.5, 6, "steps"), "2 steps/s");
  EXPECT_EQ(pace_text(3, 1, 6, "steps"), "2 steps/s, 0 s left");
  EXPECT_EQ(pace_text(0, 0.5, 6, "steps"), "0 s left");
}

TEST(ProgressLine, APipeHasALineNowAndThen) {
  const auto printed = [](double pause) {
    testing::internal::CaptureStderr();
    ProgressLine line(pause);
    line.show("2 of 4 scenarios,", 0.5);
    line.clear();
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(printed(0), "# 2 of 4 scenarios, 50 %, 1 s left\n");
  EXPECT_EQ(printed(ProgressLine::usual_pause), "");
}

TEST(ProgressLine, DurationsAreRoundedUp) {
  EXPECT_EQ(duration_text(0.2), "1 s");
  EXPECT_EQ(duration_text(119), "119 s");
  EXPECT_EQ(duration_text(119.5), "2 min");
  EXPECT_EQ(duration_text(7199), "119 min");
  EXPECT_EQ(duration_text(7200), "2 h 0 min");
  EXPECT_EQ(duration_text(2 * 3600 + 61), "2 h 1 min");
}

}  // namespace
}  // namespace moesim
