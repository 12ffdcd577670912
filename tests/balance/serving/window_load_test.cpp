// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/serving/window_load.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

LoadMatrix counts(std::int64_t first, std::int64_t second) {
  LoadMatrix loads(2, 2);
  loads.at(GpuId(0), ExpertId(0)) = first;
  loads.at(GpuId(1), ExpertId(1)) = second;
  return loads;
}

TEST(WindowLoadTest, SumsTheLastPasses) {
  WindowLoad load(2, 3);
  for (int pass = 1; pass <= 5; ++pass) load.add(counts(pass, 10));
  EXPECT_EQ(load.load(), (std::vector<double>{3 + 4 + 5, 30}));
}

}  // namespace
}  // namespace moesim
