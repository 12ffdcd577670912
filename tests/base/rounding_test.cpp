// SPDX-License-Identifier: Apache-2.0
#include "sim/base/rounding.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(Rounding, DecimalFactorsCountAsExact) {
  const double fifty_five = 1.1 * 50, twenty_nine = 0.29 * 100;
  EXPECT_GT(fifty_five, 55);
  EXPECT_EQ(rounded_up(fifty_five), 55);
  EXPECT_LT(twenty_nine, 29);
  EXPECT_EQ(rounded_down(twenty_nine), 29);
}

TEST(Rounding, OthersGoTheirWay) {
  EXPECT_EQ(rounded_up(11.001), 12);
  EXPECT_EQ(rounded_up(11), 11);
  EXPECT_EQ(rounded_down(28.999), 28);
  EXPECT_EQ(rounded_down(29), 29);
}

}  // namespace
}  // namespace moesim
