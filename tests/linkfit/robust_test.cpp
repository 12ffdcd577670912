// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/robust.h"

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

namespace moesim {
namespace {

TEST(Robust, MedianWithoutOutliers) {
  const Robust r = robust_median({1, 1.01, 0.99, 1, 50});
  EXPECT_EQ(r.value, 1);
  EXPECT_EQ(r.kept, 4);
  EXPECT_EQ(r.rejected, 1);
  EXPECT_EQ(r.least, 0.99);
  EXPECT_EQ(r.most, 1.01);
  // Half of the kept lie within 0.005 of the median.
  EXPECT_NEAR(r.spread, 1.96 * 1.2533 * 1.4826 * 0.005 / std::sqrt(4), 1e-12);
  EXPECT_EQ(robust_median({1, 50}).rejected, 0);  // of two, either may be the wild one
  EXPECT_EQ(robust_median({3}).spread, 0);
  EXPECT_EQ(robust_median({1, 1, 100}).rejected, 1);
  EXPECT_EQ(robust_median({0, 0, 0}).kept, 3);
  EXPECT_NEAR(robust_median({1, 3}).spread, 1.96 * 1.2533 * 1.4826 / std::sqrt(2) / 2, 1e-12);
  EXPECT_THROW(robust_median({}), std::invalid_argument);
}

TEST(Robust, AnUpperMedianHasOccurred) {
  EXPECT_EQ(upper_median<double>({4, 1, 2, 3}), 3);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(upper_median<int>({9, 1, 5}), 5);
  EXPECT_THROW(upper_median<double>({}), std::invalid_argument);
}

TEST(Robust, ValuesAscendAfterPooling) {
  EXPECT_EQ(ascending({1, 3, 2, 5}), (std::vector<double>{1, 2.5, 2.5, 5}));
  EXPECT_EQ(ascending({1, 9, 2, 3}), (std::vector<double>{1, 3, 3, 3}));  // the median of 9, 2, 3
  EXPECT_EQ(ascending({}), std::vector<double>{});
}

TEST(Robust, LineThroughPointsOfWhichSomeAreWild) {
  const RobustLine line = theil_sen({1, 2, 3, 4, 5}, {3, 5, 7, 90, 11});
  EXPECT_NEAR(line.slope, 2, 1e-12);
  EXPECT_NEAR(line.start, 1, 1e-12);
  EXPECT_NEAR(line.start_spread, 0, 1e-12);
  const RobustLine falling = theil_sen({1, 2, 3}, {5, 4, 3}, 0);
  EXPECT_EQ(falling.slope, 0);
  EXPECT_EQ(falling.start, 4);
}

}  // namespace
}  // namespace moesim
