// SPDX-License-Identifier: Apache-2.0
#include "sim/base/place_of.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace moesim {
namespace {

/// All subsets of ten numbers: with any gaps, none or no number at all.
TEST(PlaceOf, IsThatOfTheFirstNumberThatIsNotBefore) {
  for (unsigned chosen = 0; chosen < 1U << 10; ++chosen) {
    std::vector<GpuId> gpus;
    for (int number = 0; number < 10; ++number) {
      if ((chosen >> number & 1U) > 0) gpus.emplace_back(number + 3);
    }
    for (int key = 0; key < 16; ++key) {
      const auto expected = std::ranges::lower_bound(gpus, GpuId(key)) - gpus.begin();
      EXPECT_EQ(place_of(gpus, GpuId(key)), static_cast<std::size_t>(expected)) << chosen;
    }
  }
}

}  // namespace
}  // namespace moesim
