// SPDX-License-Identifier: Apache-2.0
// Files of other programs (tests/fixtures/parquet/write.mjs) give what these were told to write.
#include <gmock/gmock.h>

#include "sim/import/parquet/parquet_column.h"
#include "tests/error_of.h"
#include "tests/import/formats.h"

namespace moesim {
namespace {

const std::string parquet_files = std::string(MOESIM_ROOT) + "/tests/fixtures/parquet/";

/// All rows, so many at a time.
std::vector<double> values_of(const std::string& name, const std::string& column,
                              std::int64_t rows) {
  const ParquetFile file(parquet_files + name);
  ParquetColumn reader(file, column);
  std::vector<double> values;
  for (;;) {
    const NpyArray part = reader.read(rows);
    if (part.count() == 0) return values;
    for (std::int64_t i = 0; i < part.count(); ++i) values.push_back(part.real(i));
  }
}

std::vector<double> expected_ids(int tokens) {
  std::vector<double> ids;
  for (int t = 0; t < tokens; ++t) {
    for (const int id : choice(t, 1)) ids.push_back(id);
  }
  return ids;
}

TEST(Parquet, ListsOfManyPagesAndRowGroups) {
  for (const std::string name : {"gzip.parquet", "dictionary.parquet"}) {
    for (const std::int64_t rows : {1, 7, 64, 1000}) {
      EXPECT_EQ(values_of(name, "indices", rows), expected_ids(100)) << name << ", " << rows;
    }
    const auto scores = values_of(name, "scores", 33);
    ASSERT_EQ(scores.size(), 200u);
    for (int t = 0; t < 100; ++t) {
      EXPECT_NEAR(scores[static_cast<std::size_t>(2 * t)], 0.5 + 1.0 / (2 + t % 4), 3e-4);
      EXPECT_EQ(scores[static_cast<std::size_t>(2 * t + 1)], 0.25);
    }
  }
}

TEST(Parquet, ColumnsOfNumbers) {
  const auto ids = values_of("plain-columns.parquet", "token_id", 10);
  const auto gates = values_of("plain-columns.parquet", "gate", 1000);
  ASSERT_EQ(ids.size(), 100u);
  ASSERT_EQ(gates.size(), 100u);
  for (std::size_t t = 0; t < 100; ++t) {
    EXPECT_EQ(ids[t], 7.0 * static_cast<double>(t));
    EXPECT_EQ(gates[t], static_cast<double>(t) / 8);
  }
}

TEST(Parquet, WhatIsNoNumberIsRefused) {
  const auto refused = [](const std::string& name, const std::string& column) {
    return error_of([&] { values_of(name, column, 10); });
  };
  EXPECT_THAT(refused("plain-columns.parquet", "gaps"), testing::HasSubstr("a row without values"));
  EXPECT_THAT(refused("plain-columns.parquet", "text"),
              testing::HasSubstr("holds values of type BYTE_ARRAY, no numbers"));
  EXPECT_THAT(refused("plain-columns.parquet", "gat"), testing::HasSubstr("did you mean 'gate'"));
  EXPECT_THAT(refused("brotli.parquet", "indices"), testing::HasSubstr("compressed by codec 4"));
  EXPECT_THAT(refused("delta.parquet", "indices"), testing::HasSubstr("is of encoding 5"));
  EXPECT_THAT(refused("write.mjs", "indices"), testing::HasSubstr("is not a whole Parquet file"));
}

}  // namespace
}  // namespace moesim
