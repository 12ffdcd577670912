// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/row_table.h"

#include <gmock/gmock.h>

namespace moesim {
namespace {

TEST(RowTable, IsATableOfAllPairsOfWhichBlocksAlongTheDiagonalAreHeld) {
  RowTable table;
  table.append({1, 2, 3, 4});
  table.append({5, 6, 7, 8});
  EXPECT_EQ(table.gpus(), 4U);
  EXPECT_EQ(table, (std::vector<std::uint32_t>{1, 2, 0, 0,  //
                                               3, 4, 0, 0,  //
                                               0, 0, 5, 6,  //
                                               0, 0, 7, 8}));
  EXPECT_EQ(table.total(), 36U);
  EXPECT_EQ(table.most(), 8U);
  EXPECT_EQ(RowTable().most(), 0U);
  EXPECT_EQ(table.at(2, 1), 0U);
  EXPECT_EQ(table.at(3, 2), 7U);
  EXPECT_EQ(table.first(3), 2U);
  EXPECT_THAT(std::as_const(table).row(3), testing::ElementsAre(7, 8));
  EXPECT_EQ(RowTable({1, 2, 3, 4}) *= 3, (RowTable{3, 6, 9, 12}));
  table.row(0)[1] = 9;
  EXPECT_EQ(table.at(0, 1), 9U);
  EXPECT_THROW(table.append({1}), std::logic_error);
}

TEST(RowTable, BeginsWithNothing) {
  EXPECT_EQ(RowTable(2), (std::vector<std::uint32_t>(4)));
  EXPECT_EQ(RowTable(2), (RowTable{0, 0, 0, 0}));
}

}  // namespace
}  // namespace moesim
