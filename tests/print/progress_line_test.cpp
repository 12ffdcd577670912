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
}

}  // namespace
}  // namespace moesim
