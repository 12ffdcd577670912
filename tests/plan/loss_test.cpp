// SPDX-License-Identifier: Apache-2.0
// The rule of what is lossy, and the words for it.
#include "sim/plan/loss.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(Loss, NothingIsLostUnlessSomethingIsAltered) {
  EXPECT_FALSE(Loss{}.any());
  EXPECT_FALSE((Loss{1000, 0, 0, {}, 1}).any());
  EXPECT_EQ((Loss{1000, 0, 0, {}, 1}).text(), "");
}

TEST(Loss, TheLeastOfAnyKindCounts) {
  EXPECT_TRUE((Loss{1000, 1, 0, {}, 1}).any());
  EXPECT_TRUE((Loss{1000, 0, 1, {}, 1}).any());
  EXPECT_TRUE((Loss{1000, 0, 0, {1, "sign"}, 1}).any());
  EXPECT_TRUE((Loss{1000, 0, 0, {}, 1.5}).any());
}

TEST(Loss, SaysWhatAndHowMuch) {
  EXPECT_EQ((Loss{1000, 180, 0}).text(), "drops 18 %");
  EXPECT_EQ((Loss{1000, 0, 30}).text(), "replaces 3 %");
  EXPECT_EQ((Loss{100000, 1, 0}).text(), "drops <1 %") << "never 0 %";
  EXPECT_EQ((Loss{1000, 0, 0, {8, "fp8"}}).text(), "fp8 rows");
  EXPECT_EQ((Loss{1000, 0, 0, {}, 50}).text(), "compresses 50x");
  EXPECT_EQ((Loss{1000, 0, 0, {}, 1.5}).text(), "compresses 1.5x");
  const Loss all{1000, 500, 1000, {8, "8-bit"}, 2.5};
  EXPECT_EQ(all.text(), "drops 50 %, replaces 100 %, 8-bit rows, compresses 2.5x");
  EXPECT_TRUE(all.any());
  EXPECT_DOUBLE_EQ(all.dropped_part(), 0.5);
  EXPECT_DOUBLE_EQ(all.replaced_part(), 1);
}

}  // namespace
}  // namespace moesim
