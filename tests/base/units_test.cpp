// SPDX-License-Identifier: Apache-2.0
#include "sim/base/units.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(Units, BitsAreEighthsOfBytes) {
  EXPECT_EQ(bandwidth_scale("Gbit/s") * 400, 50e9);
  EXPECT_EQ(bandwidth_scale("Gbps"), bandwidth_scale("Gbit/s"));
}

TEST(Units, DecimalAndBinarySizesDiffer) {
  EXPECT_EQ(bytes_scale("MB"), 1e6);
  EXPECT_EQ(bytes_scale("MiB"), 1048576);
  EXPECT_EQ(bytes_scale("mb"), 0);
}

TEST(Units, PrintsFourDigitsInAFittingUnit) {
  EXPECT_EQ(to_string(Seconds(0.001005)), "1.005 ms");
  EXPECT_EQ(to_string(Seconds(0)), "0 ns");
  EXPECT_EQ(to_string(Seconds(3e-10)), "0.3 ns");
  EXPECT_EQ(to_string(Bytes(33554432)), "33.55 MB");
  EXPECT_EQ(to_string(BytesPerSecond(50e9)), "50 GB/s");
  EXPECT_EQ(to_string(FlopsPerSecond(989.4e12)), "989.4 TFLOP/s");
  EXPECT_EQ(to_string(FlopsPerSecond(3)), "3 FLOP/s");
  EXPECT_EQ(to_string(Seconds(0.99999)), "1 s");
}

TEST(Units, SplitsNumberAndUnit) {
  NumberWithUnit n;
  ASSERT_TRUE(split_unit("1.5e2  us", n));
  EXPECT_EQ(n.number, 150);
  EXPECT_EQ(n.unit, "us");
  EXPECT_FALSE(split_unit("us", n));
  EXPECT_FALSE(split_unit("inf", n));
  EXPECT_FALSE(split_unit("", n));
}

}  // namespace
}  // namespace moesim
