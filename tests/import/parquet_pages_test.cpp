// SPDX-License-Identifier: Apache-2.0
// Parquet files made by hand, byte by byte: what is read of them, and what is damaged.
#include <gmock/gmock.h>
#include <zlib.h>

#include "sim/base/gzip.h"
#include "sim/import/parquet/parquet_column.h"
#include "tests/error_of.h"
#include "tests/import/parquet_by_hand.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using namespace parquet_by_hand;
using testing::HasSubstr;

/// "WIDTH: values", read so many rows at a time; or what is wrong.
std::string read_all(const std::string& bytes, std::int64_t rows = 100) {
  const ScratchFolder scratch;
  write_bytes(scratch / "a.parquet", bytes);
  std::string text;
  const std::string error = error_of([&] {
    const ParquetFile file(scratch / "a.parquet");
    ParquetColumn column(file, "ids");
    for (;;) {
      const NpyArray part = column.read(rows);
      if (part.count() == 0) break;
      for (std::int64_t i = 0; i < part.count(); ++i) text += " " + std::to_string(part.real(i));
      text += "/" + std::to_string(part.shape()[1]);
    }
  });
  if (error.empty()) return replace_all(text, ".000000", "");
  const auto at = error.find("error: ");
  return error.substr(at, error.find('\n', at) - at);
}

std::string read_of(const ColumnOf& column, std::int64_t rows = 100) {
  return read_all(file_with({column}), rows);
}

TEST(ParquetByHand, ListsHaveTheWidthOfTheirLevels) {
  const ColumnOf two = lists("0101", "1111", {3, 4, 5, 6});
  EXPECT_EQ(read_of(two), " 3 4 5 6/2");
  EXPECT_EQ(read_of(two, 1), " 3 4/2 5 6/2");
  EXPECT_EQ(read_all(file_with({two, two})), " 3 4 5 6 3 4 5 6/2");
  EXPECT_EQ(read_all(file_with({two, two}), 3), " 3 4 5 6 3 4/2 5 6/2");
  EXPECT_EQ(read_all(file_with({two, {0, ""}, two}), 3), " 3 4 5 6 3 4/2 5 6/2")
      << "an empty group";
  EXPECT_EQ(read_of(lists("011", "111", {1, 2, 3})), " 1 2 3/3") << "a single row";
  EXPECT_EQ(read_of(lists("00", "11", {1, 2})), " 1 2/1");
}

TEST(ParquetByHand, RowsMayGoOnInTheNextPage) {
  const ColumnOf first = lists("01", "11", {1, 2}), second = lists("1011", "1111", {3, 4, 5, 6});
  EXPECT_EQ(read_of({6, first.pages + second.pages}), " 1 2 3 4 5 6/3");
}

TEST(ParquetByHand, RowsOfDifferentLengthsAreRefused) {
  const std::string wrong = "error: has rows of different lengths";
  for (const char* const levels : {"010", "001", "0011", "01011", "01001", "10", "011010"}) {
    const std::string present(std::string(levels).size(), '1');
    EXPECT_EQ(read_of(lists(levels, present, std::vector<std::int32_t>(present.size()))), wrong)
        << levels;
  }
}

TEST(ParquetByHand, RowsWithoutValuesAreRefused) {
  const std::string wrong = "error: has a row without values";
  EXPECT_EQ(read_of(lists("0101", "1110", {3, 4, 5})), wrong);
  EXPECT_EQ(read_of({2, data_page(2, with_size(levels_of("10")) + ints({1})), 1, 0, 1}), wrong);
  EXPECT_EQ(read_of({2, data_page(2, with_size(levels_of("11")) + ints({1, 2})), 1, 0, 1}),
            " 1 2/1");
}

TEST(ParquetByHand, NumbersHaveEveryType) {
  const auto required = [](int type, const std::string& body, int length = 0, bool half = false) {
    return read_of({2, data_page(2, body), type, 0, 0, length, half});
  };
  EXPECT_EQ(required(1, ints({7, -8})), " 7 -8/1");
  EXPECT_EQ(required(2, packed(std::vector<std::int64_t>{7, 1LL << 40})), " 7 1099511627776/1");
  EXPECT_EQ(required(4, packed(std::vector{0.5F, 2.0F})), " 0.500000 2/1");
  EXPECT_EQ(required(5, packed(std::vector{0.25, 3.0})), " 0.250000 3/1");
  EXPECT_EQ(required(7, packed(std::vector<std::uint16_t>{0x3c00, 0x4000}), 2, true), " 1 2/1");
  EXPECT_EQ(required(7, "abcd", 2), "error: holds values of type FIXED, no numbers");
  EXPECT_EQ(required(7, "abcdefgh", 4, true), "error: holds values of type FIXED, no numbers");
  EXPECT_EQ(required(0, "a"), "error: holds values of type BOOLEAN, no numbers");
  EXPECT_EQ(required(3, "a"), "error: holds values of type INT96, no numbers");
  EXPECT_EQ(required(8, "a"), "error: holds values of type unknown, no numbers");
}

const std::string three_values = ints({10, 20, 30});
/// Three values, which both encodings of dictionaries name by number.
std::string dictionary_page(int values = 3, int encoding = 0) {
  return page_of(2, Fields().number(1, values).number(2, encoding), 7, three_values);
}
/// Indices 2, 0, 1, 2 of two bits each.
const std::string indices = "\x02\x03" + std::string("\x92\0", 2);

TEST(ParquetByHand, DictionariesAreLookedUp) {
  for (const int encoding : {2, 8}) {
    EXPECT_EQ(read_of({4, dictionary_page() + data_page(4, indices, encoding), 1, 0, 0}),
              " 30 10 20 30/1");
  }
  EXPECT_EQ(read_of({4, dictionary_page(3, 2) + data_page(4, indices, 8), 1, 0, 0}),
            " 30 10 20 30/1");
  EXPECT_EQ(read_of({4, dictionary_page(3, 1) + data_page(4, indices, 8), 1, 0, 0}),
            "error: has a damaged dictionary");
  EXPECT_EQ(read_of({4, dictionary_page(2) + data_page(4, indices, 8), 1, 0, 0}),
            "error: has a damaged dictionary");
  EXPECT_EQ(read_of({4, dictionary_page() + data_page(4, "\x02\x03\xff\xff", 8), 1, 0, 0}),
            "error: has a value that its dictionary lacks");
  EXPECT_EQ(read_of({4, dictionary_page() + data_page(4, "", 8), 1, 0, 0}),
            "error: has a damaged page");
  EXPECT_EQ(read_of({4, data_page(4, ints({1, 2, 3, 4}), 5), 1, 0, 0}), "error: is of encoding 5");
  // Of another row group nothing is left.
  EXPECT_EQ(read_all(file_with({{4, dictionary_page() + data_page(4, indices, 8), 1, 0, 0},
                                {4, data_page(4, indices, 8), 1, 0, 0}})),
            "error: has a value that its dictionary lacks");
}

TEST(ParquetByHand, PagesOfVersionTwoHaveTheirLevelsInFront) {
  const std::string repeated = levels_of("0101"), present = levels_of("1111");
  const auto read_v2 = [&](std::int64_t nulls, std::int64_t rep, const std::string& values,
                           int codec, bool is_packed, std::int64_t size) {
    Fields about;
    about.number(1, 4).number(2, nulls).number(3, 2).number(4, 0);
    about.number(5, static_cast<std::int64_t>(present.size())).number(6, rep);
    about.head(7, is_packed ? ThriftReader::yes : ThriftReader::no);
    const std::string body = repeated + present + values;
    return read_of({4, page_of(3, about, 8, body, size), 1, codec, 2});
  };
  const std::string values = ints({3, 4, 5, 6});
  const auto whole = static_cast<std::int64_t>(repeated.size() + present.size() + values.size());
  EXPECT_EQ(read_v2(0, 2, values, 0, true, whole), " 3 4 5 6/2");
  EXPECT_EQ(read_v2(0, 2, values, 2, false, whole), " 3 4 5 6/2") << "not packed";
  EXPECT_EQ(read_v2(0, 2, gzipped(values), 2, true, whole), " 3 4 5 6/2");
  EXPECT_EQ(read_v2(1, 2, values, 0, true, whole), "error: has a row without values");
  EXPECT_EQ(read_v2(0, -1, values, 0, true, whole), "error: has a damaged page");
  EXPECT_EQ(read_v2(0, 99, values, 0, true, whole), "error: has a damaged page");
  EXPECT_EQ(read_v2(0, 2, values, 0, true, 3), "error: has a damaged page") << "only levels";
}

TEST(ParquetByHand, DamagedPagesAreRefused) {
  const std::string damaged = "error: has a damaged page";
  const auto required = [](const std::string& pages, std::int64_t values = 2) {
    return read_of({values, pages, 1, 0, 0});
  };
  const std::string body = ints({1, 2});
  EXPECT_EQ(required(data_page(2, body)), " 1 2/1");
  EXPECT_EQ(required(data_page(2, body), 1), damaged) << "more than in the chunk";
  EXPECT_EQ(required(data_page(2, body.substr(1))), damaged);
  EXPECT_EQ(required(data_page(-2, body)), damaged);
  EXPECT_EQ(required(page_of(0, Fields().number(1, 2), 5, body, 9)), damaged);
  EXPECT_EQ(required(data_page(2, body).substr(0, 12)), "error: its metadata is cut short");
  EXPECT_EQ(required(page_of(4, Fields().number(1, 2), 5, body)), damaged);
  EXPECT_EQ(required(data_page(0, "") + data_page(2, body)), " 1 2/1") << "no bytes, no values";
  Fields empty_v2;
  empty_v2.number(1, 0).number(2, 0).number(3, 0).number(4, 0).number(5, 0).number(6, 0);
  EXPECT_EQ(required(page_of(3, empty_v2, 8, "") + data_page(2, body)), " 1 2/1");
  EXPECT_EQ(required(page_of(1, Fields(), 6, "x") + data_page(2, body)), " 1 2/1")
      << "pages of indices are passed";
  EXPECT_THAT(required(data_page((8 << 20) + 1, body), 1 << 24),
              HasSubstr("has a page of 8388609 values; at most 8388608 are read"));
  EXPECT_EQ(required(data_page(8 << 20, body), 1 << 24), damaged);
  const ColumnOf list = {2, data_page(2, ints({99}) + ints({1, 2}))};
  EXPECT_EQ(read_of(list), damaged) << "levels beyond the page";
  EXPECT_EQ(read_of({2, data_page(2, "abc")}), damaged) << "no length of levels";
}

TEST(ParquetByHand, StatisticsOfAPageArePassed) {
  Fields about;
  about.number(1, 2).number(2, 0).text(3, "three").inner(5, Fields().text(1, "most"));
  EXPECT_EQ(read_of({2, page_of(0, about, 5, ints({1, 2})), 1, 0, 0}), " 1 2/1");
}

TEST(ParquetByHand, ChecksumsAreOfThePage) {
  const std::string body = ints({1, 2});
  const auto with_sum = [&](std::uint32_t sum) {
    Fields header;
    header.number(1, 0).number(2, 8).number(3, 8).number(4, static_cast<std::int32_t>(sum));
    return read_of({2, header.inner(5, Fields().number(1, 2)).end() + body, 1, 0, 0});
  };
  const auto sum = static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
  EXPECT_THAT(with_sum(sum), HasSubstr("is of encoding -1")) << "the sum is right";
  EXPECT_EQ(with_sum(sum + 1), "error: has a page that fails its checksum");
}

TEST(ParquetByHand, ChunksBeginWithTheirDictionary) {
  const std::string dictionary = dictionary_page();
  const ColumnOf column = {4, dictionary + data_page(4, indices, 8), 1, 0, 0};
  Fields about;
  about.number(1, 1).number(4, 0).number(5, 4, ThriftReader::i64);
  about.number(7, static_cast<std::int64_t>(column.pages.size()), ThriftReader::i64);
  about.number(9, static_cast<std::int64_t>(4 + dictionary.size()), ThriftReader::i64);
  Fields metadata;
  metadata.list(2, {Fields().text(4, "root").number(5, 1), leaf_of(column)});
  metadata.number(3, 4, ThriftReader::i64);
  const Fields chunk = Fields().inner(3, about.number(11, 4, ThriftReader::i64));
  EXPECT_EQ(read_all(file_of(column.pages, metadata.list(4, {Fields().list(1, {chunk})}))),
            " 30 10 20 30/1");
}

TEST(ParquetByHand, RowsAndSchemasAreBounded) {
  const auto row_of = [](std::size_t values) {
    return read_of(lists("0" + std::string(values - 1, '1'), std::string(values, '1'),
                         std::vector<std::int32_t>(values, 7)));
  };
  EXPECT_THAT(row_of(4096), ::testing::EndsWith(" 7 7/4096"));
  EXPECT_EQ(row_of(4097), "error: has rows of different lengths");
  const auto of_depth = [](int depth) {
    const ColumnOf column = {2, data_page(2, ints({1, 2})), 1, 0, 0};
    std::vector<Fields> schema = {Fields().text(4, "root").number(5, 1)};
    for (int i = 1; i < depth; ++i) {
      schema.push_back(Fields().number(3, 0).text(4, "ids").number(5, 1));
    }
    schema.push_back(leaf_of(column));
    Fields metadata;
    metadata.list(2, schema).number(3, 2, ThriftReader::i64);
    return read_all(
        file_of(column.pages, metadata.list(4, {Fields().list(1, {chunk_of(column, 4)})})));
  };
  EXPECT_EQ(of_depth(13), " 1 2/1");
  EXPECT_EQ(of_depth(16), " 1 2/1");
  EXPECT_EQ(of_depth(17), "error: has a damaged schema");
}

TEST(ParquetByHand, FilesAreWhole) {
  const std::string sound = file_with({lists("01", "11", {1, 2})});
  EXPECT_EQ(read_all(sound), " 1 2/2");
  const std::string cut = "error: is not a whole Parquet file";
  EXPECT_EQ(read_all(sound.substr(0, sound.size() - 1)), cut);
  EXPECT_EQ(read_all("x" + sound), cut);
  EXPECT_EQ(read_all("PAR1PAR1"), cut);
  EXPECT_EQ(read_all(sound.substr(0, sound.size() - 4) + "PARE"), "error: is encrypted");
  std::string longer = sound;
  longer[sound.size() - 6] = 1;  // 65,536 bytes more
  EXPECT_EQ(read_all(longer), "error: its metadata is longer than it may be");
  EXPECT_EQ(read_all("PAR1" + ints({1}).substr(0, 1) + "PAR1"), cut);
}

TEST(ParquetByHand, SchemasAreWhole) {
  const ColumnOf column = lists("01", "11", {1, 2});
  const auto read_schema = [&](const std::vector<Fields>& schema, const std::vector<Fields>& chunks,
                               std::int64_t rows = 1) {
    Fields metadata;
    metadata.list(2, schema).number(3, rows, ThriftReader::i64);
    return read_all(file_of(column.pages, metadata.list(4, {Fields().list(1, chunks)})));
  };
  const Fields root = Fields().text(4, "root").number(5, 1);
  const Fields chunk = chunk_of(column, 4);
  EXPECT_EQ(read_schema({root, leaf_of(column)}, {chunk}), " 1 2/2");
  Fields of_no_groups;
  of_no_groups.list(2, {root, leaf_of(column)}).number(3, 0, ThriftReader::i64);
  of_no_groups.head(4, ThriftReader::list).raw(std::string(1, '\0'));  // of no type
  EXPECT_EQ(read_all(file_of("", of_no_groups)), "");
  EXPECT_EQ(read_schema({root}, {chunk}), "error: has a damaged schema");
  EXPECT_EQ(read_schema({root, leaf_of(column), leaf_of(column)}, {chunk}),
            "error: has a damaged schema");
  EXPECT_EQ(read_schema({Fields().number(5, -1)}, {chunk}), "error: has a damaged schema");
  EXPECT_EQ(read_schema({Fields().number(5, 0)}, {chunk}), "error: its metadata is damaged");
  EXPECT_EQ(read_schema({root, leaf_of(column)}, {chunk}, -1), "error: its metadata is damaged");
  EXPECT_EQ(read_schema({root, leaf_of(column)}, {chunk, chunk}), "error: its metadata is damaged");
  EXPECT_EQ(read_schema({root, leaf_of({0, "", 2})}, {chunk}), "error: its metadata is damaged");
  EXPECT_EQ(read_schema({root, leaf_of(column, "others")}, {chunk}), "error: has no column 'ids'");
  const Fields pair = Fields().number(3, 0).text(4, "ids").number(5, 2);
  EXPECT_EQ(read_schema({root, pair, leaf_of(column, "a"), leaf_of(column, "b")}, {chunk, chunk}),
            "error: its column 'ids' holds several values a row");
  const Fields deep = Fields().number(3, 2).text(4, "ids").number(5, 1);
  EXPECT_EQ(read_schema({root, deep, leaf_of(column, "a")}, {chunk}),
            "error: holds lists of lists");
  for (const auto& [first, size] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {-1, 10}, {4, -1}, {4, 1 << 20}, {1 << 20, 10}}) {
    Fields about;
    about.number(1, 1).number(4, 0).number(5, 2, ThriftReader::i64);
    about.number(7, size, ThriftReader::i64).number(9, first, ThriftReader::i64);
    EXPECT_EQ(read_schema({root, leaf_of(column)}, {Fields().inner(3, about)}),
              "error: its metadata is damaged")
        << first << " " << size;
  }
}

}  // namespace
}  // namespace moesim
