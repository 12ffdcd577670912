// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/loads.h"

#include <gtest/gtest.h>

namespace moesim {
namespace {

TEST(LoadMatrixTest, SumsOverSourcesAndAddsWindows) {
  LoadMatrix loads(2, 3);
  loads.at(GpuId(0), ExpertId(1)) = 4;
  loads.at(GpuId(1), ExpertId(1)) = 3;
  loads.at(GpuId(1), ExpertId(2)) = 1;
  EXPECT_EQ(loads.per_expert(), (std::vector<std::int64_t>{0, 7, 1}));
  LoadMatrix twice = loads;
  twice += loads;
  EXPECT_EQ(twice.at(GpuId(0), ExpertId(1)), 8);
  EXPECT_EQ(twice.row(GpuId(1))[2], 2);
}

}  // namespace
}  // namespace moesim
