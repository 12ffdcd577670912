// SPDX-License-Identifier: Apache-2.0
#include "sim/base/byte_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace moesim {
namespace {

const std::vector<std::int64_t> dense = {4, 0,  8,  //
                                         0, 0,  2,  //
                                         6, 10, 0};

TEST(ByteMatrix, TakesTheGreatestCommonDivisorAsUnit) {
  const auto m = ByteMatrix::from_dense(3, dense);
  EXPECT_EQ(m.unit(), Bytes(2));
  EXPECT_EQ(m.at(GpuId(2), GpuId(1)), Bytes(10));
  EXPECT_EQ(m.at(GpuId(1), GpuId(0)), Bytes(0));
}

TEST(ByteMatrix, CountsWhatLeavesItsGpuApartFromAll) {
  const auto m = ByteMatrix::from_dense(3, dense);
  EXPECT_EQ(m.total(), Bytes(30));
  EXPECT_EQ(m.off_diagonal(), Bytes(26));
  EXPECT_EQ(m.entries(), 5u);
}

TEST(ByteMatrix, TransposeSwapsSourcesAndDestinations) {
  const auto m = ByteMatrix::from_dense(3, dense);
  const auto t = m.transposed();
  for (int a = 0; a < 3; ++a) {
    for (int b = 0; b < 3; ++b) EXPECT_EQ(t.at(GpuId(a), GpuId(b)), m.at(GpuId(b), GpuId(a)));
  }
  EXPECT_EQ(t.transposed(), m);
}

TEST(ByteMatrix, OfSomeRanksHasTheirRowsAndColumns) {
  const auto m = ByteMatrix::from_dense(3, dense);
  for (const std::vector<int>& some :
       std::vector<std::vector<int>>{{0}, {2}, {0, 1}, {0, 2}, {1, 2}}) {
    const std::vector<GpuId> ids(some.begin(), some.end());
    const ByteMatrix part = m.among(ids);
    ASSERT_EQ(part.ranks(), std::ssize(some));
    for (std::size_t a = 0; a < some.size(); ++a) {
      for (std::size_t b = 0; b < some.size(); ++b) {
        EXPECT_EQ(part.at(GpuId(static_cast<int>(a)), GpuId(static_cast<int>(b))),
                  m.at(ids[a], ids[b]));
      }
    }
  }
  EXPECT_EQ(m.among(std::vector<GpuId>{GpuId(0), GpuId(1), GpuId(2)}), m);
}

TEST(ByteMatrix, KeepsRowsOfAnyLengthInTheOrderTheyCame) {
  std::vector<std::vector<ByteMatrix::Entry>> rows(40);
  ByteMatrix matrix;
  for (std::int64_t from = 0; from < 40; ++from) {
    for (std::int64_t to = from % 7; to < 40; to += 1 + from * from % 11) {
      rows[from].push_back({GpuId(to), static_cast<std::uint32_t>(1 + from + to)});
    }
    matrix.add_row(rows[from]);
  }
  for (std::int64_t from = 0; from < 40; ++from) {
    const auto row = matrix.row(GpuId(from));
    EXPECT_TRUE(std::ranges::equal(row, rows[from])) << from;
  }
}

/// Every answer of a matrix with a count for every pair is that of the same rows compressed.
TEST(ByteMatrix, SaysTheSameOfCountsOfAllPairs) {
  std::mt19937 random(7);
  for (const unsigned percent : {0U, 10U, 50U, 100U}) {
    ByteMatrix::Counts counts(9 * 9);
    for (std::uint32_t& count : counts)
      count = random() % 100 < percent ? static_cast<std::uint32_t>(random() % 9 + 1) : 0;
    ByteMatrix rows(Bytes(3));
    for (std::size_t from = 0; from < 9; ++from) {
      rows.add_dense_row(std::span(counts).subspan(from * 9, 9));
    }
    const auto pairs =
        ByteMatrix::of_counts(9, std::make_shared<const ByteMatrix::Counts>(counts), Bytes(3));
    EXPECT_EQ(pairs, rows);
    EXPECT_EQ(pairs.ranks(), 9);
    EXPECT_EQ(pairs.entries(), rows.entries());
    EXPECT_EQ(pairs.total(), rows.total());
    EXPECT_EQ(pairs.off_diagonal(), rows.off_diagonal());
    EXPECT_EQ(pairs.transposed(), rows.transposed());
    const std::vector<GpuId> some = {GpuId(1), GpuId(4), GpuId(8)};
    EXPECT_EQ(pairs.among(some), rows.among(some));
    for (int from = 0; from < 9; ++from) {
      const auto pair_row = pairs.row(GpuId(from)), row = rows.row(GpuId(from));
      EXPECT_TRUE(pair_row.dense());
      EXPECT_FALSE(row.dense());
      EXPECT_EQ(pair_row.size(), row.size());
      EXPECT_EQ(pair_row.empty(), row.empty());
      EXPECT_EQ(pair_row.total(), row.total());
      if (!row.empty()) {
        EXPECT_EQ(pair_row.front(), row.front());
      }
      for (int to = 0; to < 9; ++to) {
        EXPECT_EQ(pair_row.units(GpuId(to)), counts[static_cast<std::size_t>(from * 9 + to)]);
        EXPECT_EQ(pairs.at(GpuId(from), GpuId(to)), rows.at(GpuId(from), GpuId(to)));
      }
    }
    ByteMatrix longer = pairs;
    longer.add_dense_row(counts);
    EXPECT_EQ(longer.ranks(), 10);
    EXPECT_TRUE(std::ranges::equal(longer.row(GpuId(3)), rows.row(GpuId(3))));
    EXPECT_EQ(pairs, rows);  // not changed with its copy
  }
  const auto three = std::make_shared<const ByteMatrix::Counts>(3);
  EXPECT_THROW(ByteMatrix::of_counts(2, three, Bytes(1)), std::logic_error);
}

TEST(ByteMatrix, OfDifferentEntriesAreNotEqual) {
  const auto m = ByteMatrix::from_dense(2, std::vector<std::int64_t>{1, 2, 3, 4});
  EXPECT_NE(m, m.with_unit(Bytes(2)));
  EXPECT_NE(m, ByteMatrix::from_dense(2, std::vector<std::int64_t>{1, 2, 3, 5}));
  EXPECT_NE(m, ByteMatrix::from_dense(2, std::vector<std::int64_t>{1, 2, 3, 0}));
  EXPECT_NE(m, ByteMatrix::from_dense(1, std::vector<std::int64_t>{1}));
  EXPECT_EQ(m, ByteMatrix::from_dense(2, std::vector<std::int64_t>{1, 2, 3, 4}));
}

TEST(ByteMatrix, RefusesEntriesThatDoNotFit) {
  const std::vector<std::int64_t> huge = {0, (std::int64_t{1} << 32) + 1, 1, 0};
  EXPECT_THROW(ByteMatrix::from_dense(2, huge), std::overflow_error);
  const std::vector<std::int64_t> even = {0, std::int64_t{1} << 40, 1 << 20, 0};
  EXPECT_EQ(ByteMatrix::from_dense(2, even).at(GpuId(0), GpuId(1)), Bytes(std::int64_t{1} << 40));
}

}  // namespace
}  // namespace moesim
