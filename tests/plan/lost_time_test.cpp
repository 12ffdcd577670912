// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "sim/plan/simulate/slowdown.h"

namespace moesim {
namespace {

Interval stretch(double start, double end) { return {Seconds(start), Seconds(end)}; }

TEST(LostTime, IsHalfOfStretchesAtTwiceTheTime) {
  LostTime lost(2);
  lost.lose(stretch(2, 4));
  lost.lose(stretch(4, 6));  // goes on
  lost.lose(stretch(10, 12));
  EXPECT_EQ(lost.until(Seconds(1)), Seconds(0));
  EXPECT_EQ(lost.until(Seconds(5)), Seconds(1.5));
  EXPECT_EQ(lost.until(Seconds(8)), Seconds(2));
  EXPECT_EQ(lost.until(Seconds(20)), Seconds(3));
}

TEST(LostTime, DelaysWhatIsDueThroughAllStretchesThatAreKnown) {
  LostTime lost(2);
  lost.lose(stretch(2, 6));
  lost.lose(stretch(10, 12));
  const auto end = [&](double due) { return lost.end_of(Seconds(due), Seconds(0), Seconds(1)); };
  EXPECT_EQ(end(2), Seconds(2));
  EXPECT_EQ(end(3), Seconds(4));
  EXPECT_EQ(end(5), Seconds(7));
  EXPECT_EQ(end(8.5), Seconds(11));
  EXPECT_EQ(end(10), Seconds(13));
}

TEST(LostTime, AStretchMayLastUntilItIsStopped) {
  LostTime lost(4);
  EXPECT_FALSE(lost.loses());
  lost.lose({Seconds(1), LostTime::never});
  EXPECT_TRUE(lost.loses());
  EXPECT_EQ(lost.end_of(Seconds(2), Seconds(0), Seconds(1)), Seconds(5));
  lost.stop(Seconds(3));
  EXPECT_FALSE(lost.loses());
  EXPECT_EQ(lost.until(Seconds(3)), Seconds(1.5));
  EXPECT_EQ(lost.end_of(Seconds(2), Seconds(0), Seconds(3)), Seconds(3.5));
}

TEST(LostTime, CountsWhatItIsToldOfStretches) {
  LostTime lost(2);
  lost.lose({Seconds(1), LostTime::never});
  const auto before = lost.changes();
  lost.until(Seconds(2));
  EXPECT_EQ(lost.changes(), before);
  lost.stop(Seconds(3));
  EXPECT_NE(lost.changes(), before);
}

}  // namespace
}  // namespace moesim
