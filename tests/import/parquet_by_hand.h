// SPDX-License-Identifier: Apache-2.0
// Parquet files byte by byte.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "sim/import/parquet/thrift.h"

namespace moesim::parquet_by_hand {

inline std::string varint_of(std::uint64_t value) {
  std::string bytes;
  for (; value > 127; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
  return bytes + static_cast<char>(value);
}

/// Fields of a struct in Thrift's compact form.
class Fields {
 public:
  Fields& number(int id, std::int64_t value, ThriftReader::Type type = ThriftReader::i32) {
    head(id, type);
    bytes_ += varint_of((static_cast<std::uint64_t>(value) << 1) ^
                        static_cast<std::uint64_t>(value >> 63));
    return *this;
  }
  Fields& text(int id, const std::string& value) {
    head(id, ThriftReader::binary);
    bytes_ += varint_of(value.size()) + value;
    return *this;
  }
  Fields& inner(int id, const Fields& value) {
    head(id, ThriftReader::structure);
    bytes_ += value.end();
    return *this;
  }
  Fields& list(int id, const std::vector<Fields>& items) {
    head(id, ThriftReader::list);
    const std::size_t size = items.size();
    bytes_ += static_cast<char>(std::min<std::size_t>(size, 15) << 4 | ThriftReader::structure);
    if (size >= 15) bytes_ += varint_of(size);
    for (const Fields& item : items) bytes_ += item.end();
    return *this;
  }
  Fields& head(int id, ThriftReader::Type type) {
    bytes_ += static_cast<char>((id - last_) << 4 | type);
    last_ = id;
    return *this;
  }
  Fields& raw(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  std::string end() const { return bytes_ + '\0'; }

 private:
  std::string bytes_;
  int last_ = 0;
};

template <class T>
inline std::string packed(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
inline std::string ints(const std::vector<std::int32_t>& values) { return packed(values); }

/// Levels of one bit, as packed numbers; behind their length in pages of version 1.
inline std::string levels_of(const std::string& bits) {
  std::string bytes = varint_of((bits.size() + 7) / 8 << 1 | 1);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (i % 8 == 0) bytes += '\0';
    if (bits[i] == '1') bytes.back() = static_cast<char>(bytes.back() | 1 << i % 8);
  }
  return bytes;
}
inline std::string with_size(const std::string& bytes) {
  return packed(std::vector{static_cast<std::uint32_t>(bytes.size())}) + bytes;
}

inline std::string page_of(int type, const Fields& inner, int field, const std::string& body,
                           std::int64_t size = -1) {
  const auto length = static_cast<std::int64_t>(body.size());
  Fields header;
  header.number(1, type).number(2, size < 0 ? length : size).number(3, length);
  return header.inner(field, inner).end() + body;
}

/// A page of version 1 of so many values.
inline std::string data_page(int values, const std::string& body, int encoding = 0) {
  return page_of(0, Fields().number(1, values).number(2, encoding), 5, body);
}

struct ColumnOf {
  std::int64_t values = 0;
  std::string pages = {};
  int type = 1, codec = 0, repetition = 2, length = 0;  // type 1: int32; repetition 2: lists
  bool half = false;
};

inline Fields chunk_of(const ColumnOf& column, std::int64_t first) {
  Fields about;
  about.number(1, column.type).number(4, column.codec).number(5, column.values, ThriftReader::i64);
  about.number(7, static_cast<std::int64_t>(column.pages.size()), ThriftReader::i64);
  return Fields().inner(3, about.number(9, first, ThriftReader::i64));
}

inline Fields leaf_of(const ColumnOf& column, const std::string& name = "ids") {
  Fields leaf;
  leaf.number(1, column.type).number(2, column.length).number(3, column.repetition).text(4, name);
  if (column.half) leaf.inner(10, Fields().inner(15, {}));
  return leaf;
}

inline std::string file_of(const std::string& pages, const Fields& metadata) {
  const std::string end = metadata.end();
  return "PAR1" + pages + end + packed(std::vector{static_cast<std::uint32_t>(end.size())}) +
         "PAR1";
}

/// Row groups of one column.
inline std::string file_with(const std::vector<ColumnOf>& groups, const std::string& name = "ids",
                             std::int64_t rows = 2) {
  std::string pages;
  std::vector<Fields> chunks;
  for (const ColumnOf& group : groups) {
    const auto first = static_cast<std::int64_t>(4 + pages.size());
    chunks.push_back(Fields().list(1, {chunk_of(group, first)}));
    pages += group.pages;
  }
  Fields metadata;
  metadata.list(2, {Fields().text(4, "root").number(5, 1), leaf_of(groups[0], name)});
  return file_of(pages, metadata.number(3, rows, ThriftReader::i64).list(4, chunks));
}

/// A list column of one page of version 1; `repeated` and `present` are levels.
inline ColumnOf lists(const std::string& repeated, const std::string& present,
                      const std::vector<std::int32_t>& values) {
  const auto count = static_cast<int>(repeated.size());
  return {count, data_page(count, with_size(levels_of(repeated)) + with_size(levels_of(present)) +
                                      ints(values))};
}

}  // namespace moesim::parquet_by_hand
