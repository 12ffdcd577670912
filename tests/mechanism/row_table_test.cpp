// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/row_table.h"

#include <gmock/gmock.h>

#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/mechanism/dispatch.h"

namespace moesim {
namespace {

std::vector<std::pair<int, int>> sent(const RowTable& table, std::size_t from) {
  std::vector<std::pair<int, int>> result;
  table.for_each(from, [&](std::size_t to, std::uint32_t count) {
    result.emplace_back(static_cast<int>(to), static_cast<int>(count));
  });
  return result;
}

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
  EXPECT_THAT(sent(table, 3), testing::ElementsAre(std::pair(2, 7), std::pair(3, 8)));
  EXPECT_EQ(RowTable({1, 2, 3, 4}) *= 3, (RowTable{3, 6, 9, 12}));
  EXPECT_THROW(table.cells(), std::logic_error);
  EXPECT_THROW(table.append({1}), std::logic_error);
  RowTable one{1, 2, 3, 4};
  one.cells()[1] = 9;
  EXPECT_EQ(one.at(0, 1), 9U);
}

TEST(RowTable, TrafficSharesTheCountsOfAWholeBlock) {
  RowTable table;
  table.append({1, 2, 0, 4, 5, 6, 0, 7, 8});
  table.append({0, 6, 0, 0, 0, 0, 0, 0, 0});
  const std::vector<GpuId> first = {GpuId(0), GpuId(1), GpuId(2)};
  const std::vector<GpuId> second = {GpuId(3), GpuId(4), GpuId(5)};
  const ByteMatrix shared = traffic_among(first, table, Bytes(5));
  EXPECT_EQ(shared,
            ByteMatrix::from_dense(3, std::vector<std::int64_t>{5, 10, 0, 20, 25, 30, 0, 35, 40}));
  EXPECT_TRUE(shared.row(GpuId(0)).dense());
  table *= 2;  // a copy of its own
  EXPECT_EQ(shared.at(GpuId(0), GpuId(1)), Bytes(10));
  table.compress();
  const ByteMatrix sparse = traffic_among(second, table, Bytes(1));
  EXPECT_FALSE(sparse.row(GpuId(0)).dense());
  EXPECT_EQ(sparse.at(GpuId(0), GpuId(1)), Bytes(12));
  EXPECT_EQ(traffic_among({GpuId(4)}, table, Bytes(1)).total(), Bytes(0));
  EXPECT_THROW(traffic_among({GpuId(3)}, table, Bytes(1)), std::logic_error);  // to GPU 4
}

/// Blocks of 8 GPUs, filled to a greater part the more of them there are.
TEST(RowTable, SaysTheSameCompressed) {
  std::mt19937 random(3);
  RowTable dense, sparse;
  for (std::uint32_t percent : {0U, 5U, 30U, 49U, 60U, 100U}) {
    RowTable block(8);
    for (std::uint32_t& cell : block.cells())
      cell = random() % 100 < percent ? static_cast<std::uint32_t>(random() % 9 + 1) : 0;
    dense.append(RowTable(block));
    block.compress();
    sparse.append(std::move(block));
  }
  const auto same = [](const RowTable& a, const RowTable& b) {
    EXPECT_EQ(a, b);
    EXPECT_EQ(a.total(), b.total());
    EXPECT_EQ(a.most(), b.most());
    EXPECT_EQ(a.sums().sent, b.sums().sent);
    EXPECT_EQ(a.sums().arrived, b.sums().arrived);
    for (std::size_t from = 0; from < a.gpus(); ++from) {
      EXPECT_EQ(sent(a, from), sent(b, from)) << from;
      for (std::size_t to = 0; to < a.gpus(); ++to) EXPECT_EQ(a.at(from, to), b.at(from, to));
    }
  };
  same(dense, sparse);
  same(dense *= 3, sparse *= 3);
  const auto keep = [](std::size_t from, std::size_t to) { return (from * 5 + to) % 3 != 0; };
  dense.keep(keep);
  sparse.keep(keep);
  same(dense, sparse);
  sparse.compress();
  same(dense, sparse);
  EXPECT_NE(dense, sparse *= 2);
  EXPECT_EQ(sparse.at(8, 0), 0U);
  EXPECT_GT(sparse.at(47, 46), 0U);
}

TEST(RowTable, CopiesShareBlocksUntilOneChanges) {
  RowTable block(4);
  block.cells()[1] = 5;
  block.compress();
  RowTable twice = block;
  EXPECT_FALSE(twice.repeats());
  twice.append(RowTable(block));
  EXPECT_TRUE(twice.repeats());
  EXPECT_EQ(twice.block_of(0), twice.block_of(5));
  RowTable changed = twice;
  changed.keep([](std::size_t from, std::size_t) { return from >= 4; });
  EXPECT_EQ(changed.total(), 5U);
  EXPECT_EQ(twice.total(), 10U);
  EXPECT_EQ(block.total(), 5U);
}

TEST(RowTable, AddsUpWhatEveryGpuSendsAndGets) {
  RowTable table{0, 2, 0, 4};
  EXPECT_EQ(table.sums().sent, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(table.sums().arrived, (std::vector<std::int64_t>{0, 6}));
  const RowTable before = table;
  table *= 3;
  table.update([](std::size_t from, std::uint32_t count) { return from == 0 ? count + 1 : count; });
  table.append({7, 0, 1, 0});
  EXPECT_EQ(table.sums().sent, (std::vector<std::int64_t>{7, 12, 7, 1}));
  EXPECT_EQ(table.sums().arrived, (std::vector<std::int64_t>{0, 19, 8, 0}));
  EXPECT_EQ(before.sums().sent, (std::vector<std::int64_t>{2, 4}));
}

TEST(RowTable, HasNoCellsOnceCompressed) {
  RowTable table(8);
  table.cells()[0] = 1;
  table.compress();
  EXPECT_THROW(table.cells(), std::logic_error);
  RowTable full{1, 2, 3, 4};
  full.compress();
  EXPECT_EQ(full.cells()[3], 4U);  // it takes less room as it is
}

TEST(RowTable, BeginsWithNothing) {
  EXPECT_EQ(RowTable(2), (std::vector<std::uint32_t>(4)));
  EXPECT_EQ(RowTable(2), (RowTable{0, 0, 0, 0}));
}

}  // namespace
}  // namespace moesim
