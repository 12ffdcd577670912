// SPDX-License-Identifier: Apache-2.0
#include "sim/base/units.h"

#include <gtest/gtest.h>

#include "sim/base/figures.h"

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

TEST(Units, EachIsAThousandOfTheOneBefore) {
  double scale = 1;
  for (const std::string prefix : {"", "k", "M", "G", "T", "P"}) {
    if (prefix != "P") {
      EXPECT_EQ(bytes_scale(prefix + "B"), scale);
      EXPECT_EQ(bandwidth_scale(prefix + "B/s"), scale);
      EXPECT_EQ(bandwidth_scale(prefix + "bit/s"), scale / 8);
      EXPECT_EQ(bandwidth_scale(prefix + "bps"), scale / 8);
    }
    if (prefix != "k") {
      EXPECT_EQ(compute_rate_scale(prefix + "FLOP/s"), scale);
    }
    scale *= 1000;
  }
  EXPECT_EQ(bandwidth_scale("GiB/s"), 1 << 30);
  EXPECT_EQ(bytes_scale("KiB"), 1 << 10);
  EXPECT_EQ(bytes_scale("GiB"), 1 << 30);
  EXPECT_EQ(bytes_scale("TiB"), 1LL << 40);
  EXPECT_EQ(seconds_scale("ns"), 1e-9);
  EXPECT_EQ(seconds_scale("us"), 1e-6);
  EXPECT_EQ(seconds_scale("ms"), 1e-3);
  EXPECT_EQ(seconds_scale("s"), 1);
  EXPECT_EQ(seconds_scale("min"), 60);
  EXPECT_EQ(seconds_scale("h"), 60 * seconds_scale("min"));
  EXPECT_EQ(seconds_scale("d"), 24 * seconds_scale("h"));
}

TEST(Units, PrintsFourDigitsInAFittingUnit) {
  EXPECT_EQ(to_string(Seconds(0.001005)), "1.005 ms");
  EXPECT_EQ(to_string(Seconds(0)), "0 ns");
  EXPECT_EQ(to_string(Seconds(-0.0)), "0 ns");
  EXPECT_EQ(to_string(Seconds(-2)), "-2 s");
  EXPECT_EQ(to_string(Seconds(7200)), "7200 s");
  EXPECT_EQ(to_string(Bytes(999)), "999 B");
  EXPECT_EQ(to_string(BytesPerSecond(2e13)), "20 TB/s");
  EXPECT_EQ(to_string(Seconds(3e-10)), "0.3 ns");
  EXPECT_EQ(to_string(Bytes(33554432)), "33.55 MB");
  EXPECT_EQ(to_string(BytesPerSecond(50e9)), "50 GB/s");
  EXPECT_EQ(to_string(FlopsPerSecond(989.4e12)), "989.4 TFLOP/s");
  EXPECT_EQ(to_string(FlopsPerSecond(3)), "3 FLOP/s");
  EXPECT_EQ(to_string(Seconds(0.99999)), "1 s");
}

TEST(Units, PercentsThatRoundToNothingHaveOneSign) {
  EXPECT_EQ(signed_percent(-0.0004), "+0.0 %");
  EXPECT_EQ(signed_percent(0), "+0.0 %");
  EXPECT_EQ(signed_percent(-0.0006), "-0.1 %");
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
