// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/kind_times.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(SampledRates, AreLinearBetweenSampledNumbersOfSequences) {
  // Two ranks by data; passes of 1, 2 and 4 sequences per rank take 10, 14 and 30 s.
  const std::vector<ServingInstanceKind> kinds = {{1, 1, 1, 1, "a", {}}, {4, 2, 4, 1, "b", {}}};
  const std::vector<KindTimes> times = {{{5}, 100, ""}, {{10, 14, 30}, 200, ""}};
  SampledRates rates(kinds, times);
  EXPECT_EQ(rates.decode_time(1, 1), 10) << "a rank has one at least";
  EXPECT_EQ(rates.decode_time(1, 2), 10);
  EXPECT_EQ(rates.decode_time(1, 3), 12);
  EXPECT_EQ(rates.decode_time(1, 4), 14);
  EXPECT_EQ(rates.decode_time(1, 5), 18);
  EXPECT_EQ(rates.decode_time(1, 6), 22);
  EXPECT_EQ(rates.decode_time(1, 8), 30);
  EXPECT_EQ(rates.decode_time(1, 100), 30) << "no more are sampled";
  EXPECT_EQ(rates.decode_time(0, 3), 5);
  EXPECT_EQ(rates.prompt_tokens_per_second(1), 200);
}

}  // namespace
}  // namespace moesim
