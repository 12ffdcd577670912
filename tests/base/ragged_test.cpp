// SPDX-License-Identifier: Apache-2.0
#include "sim/base/ragged.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace moesim {
namespace {

template <class Row>
std::vector<int> list(const Row& row) {
  return {row.begin(), row.end()};
}

TEST(Ragged, KeepsRowsOfAnyLengthInTheirOrder) {
  Ragged<int> rows = {{1, 2, 3}, {}, {4}};
  rows.add_row(2);
  rows.add_row(std::vector<int>{7, 8});
  ASSERT_EQ(rows.size(), 5u);
  EXPECT_EQ(list(rows[0]), (std::vector<int>{1, 2, 3}));
  EXPECT_TRUE(rows[1].empty());
  EXPECT_EQ(list(rows[2]), std::vector<int>{4});
  EXPECT_EQ(list(rows[3]), (std::vector<int>{0, 0}));
  rows[3][1] = 6;
  EXPECT_EQ(list(rows[3]), (std::vector<int>{0, 6}));
  EXPECT_EQ(list(rows[4]), (std::vector<int>{7, 8}));
  EXPECT_EQ(list(rows.elements()), (std::vector<int>{1, 2, 3, 4, 0, 6, 7, 8}));
}

TEST(Ragged, ComparesRowsAndNotOnlyElements) {
  EXPECT_TRUE(Ragged<int>().empty());
  EXPECT_EQ((Ragged<int>{{1}, {2}}), (Ragged<int>{{1}, {2}}));
  EXPECT_NE((Ragged<int>{{1}, {2}}), (Ragged<int>{{1, 2}}));
  EXPECT_NE((Ragged<int>{{1}, {}}), (Ragged<int>{{1}}));
}

TEST(Ragged, DoesNotMoveRowsForWhichItHasRoom) {
  Ragged<int> rows;
  rows.reserve(2, 3);
  rows.add_row(1);
  const int* const first = rows[0].data();
  rows.add_row(2);
  EXPECT_EQ(rows[0].data(), first);
}

}  // namespace
}  // namespace moesim
