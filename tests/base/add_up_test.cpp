// SPDX-License-Identifier: Apache-2.0
#include "sim/base/add_up.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace moesim {
namespace {

/// Less than a block, whole blocks, and some more; counts whose sum needs more than 32 bits.
TEST(AddUp, AddsEveryCountOnceAtItsPlace) {
  for (std::size_t size = 0; size < 40; ++size) {
    std::vector<std::uint32_t> counts;
    for (std::uint32_t i = 0; i < size; ++i) counts.push_back(4'000'000'000U + 7 * i);
    std::vector<std::int64_t> sums(3, 5), expected(3, 5);
    std::int64_t all = 0;
    for (std::size_t i = 0; i < size; ++i) {
      expected[i % 3] += counts[i];
      all += counts[i];
    }
    EXPECT_EQ(add_up(
                  size, [&](std::size_t i) { return &counts[i]; }, sums.data(),
                  [](std::size_t i) { return i % 3; }),
              all);
    EXPECT_EQ(sums, expected) << size;
  }
}

}  // namespace
}  // namespace moesim
