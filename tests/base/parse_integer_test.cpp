// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>

#include "sim/base/read_number.h"

namespace moesim {
namespace {

TEST(WholeNumbers, AreAllOfATextAndInTheRangeOfTheirType) {
  EXPECT_EQ(parse_integer<int>("0"), 0);
  EXPECT_EQ(parse_integer<int>("-12"), -12);
  EXPECT_EQ(parse_integer<int>("007"), 7);
  EXPECT_EQ(parse_integer<int>("2147483647"), 2147483647);
  EXPECT_EQ(parse_integer<std::int64_t>("2147483648"), 2147483648);
  for (const char* const other : {"", " ", "1 ", " 1", "1x", "x", "1.5", "+1", "2147483648"}) {
    EXPECT_EQ(parse_integer<int>(other), std::nullopt) << other;
  }
  EXPECT_EQ(parse_integer<unsigned>("-1"), std::nullopt);
}

}  // namespace
}  // namespace moesim
