// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/ordering.h"
#include "sim/base/types.h"

namespace moesim {
namespace {

using testing::ElementsAre;

TEST(Descending, LargestFirstAndEqualOnesByPlace) {
  const std::vector<double> values = {2, 7, 2, 9, 7};
  EXPECT_THAT(descending<std::size_t>(values), ElementsAre(3, 1, 4, 0, 2));
  EXPECT_THAT(descending<ExpertId>(values),
              ElementsAre(ExpertId(3), ExpertId(1), ExpertId(4), ExpertId(0), ExpertId(2)));
  EXPECT_TRUE(descending<int>(std::vector<int>()).empty());
}

}  // namespace
}  // namespace moesim
