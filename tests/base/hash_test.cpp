// SPDX-License-Identifier: Apache-2.0
#include "sim/base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace moesim {
namespace {

TEST(Hash, DependsOnOrderAndNumber) {
  const std::vector<std::vector<int>> all = {{}, {0}, {0, 0}, {1, 2}, {2, 1}, {1, 2, 0}};
  std::set<std::size_t> hashes;
  for (const std::vector<int>& numbers : all) hashes.insert(hash_in_order(numbers));
  EXPECT_EQ(hashes.size(), all.size());
  EXPECT_EQ(hash_in_order(std::vector<int>{3, 4}), hash_in_order(std::vector<std::size_t>{3, 4}));
}

}  // namespace
}  // namespace moesim
