// SPDX-License-Identifier: Apache-2.0
#include "sim/import/parquet/parquet_column.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>

#include "sim/base/error.h"
#include "sim/import/parquet/thrift.h"

namespace moesim {
namespace {

enum : std::int64_t { data_page = 0, index_page = 1, dictionary_page = 2, data_page_v2 = 3 };
enum : std::int64_t { plain_values = 0, plain_dictionary = 2, rle_dictionary = 8 };

/// Most values of a page. Writers end pages at a megabyte or 20,000 rows.
constexpr std::int64_t most_page_values = 8 << 20;
/// Most values of a row, which has at most a choice or a score per expert. The width of rows is
/// known only when the first row has ended, and a few bytes may encode all the values of a page.
constexpr std::int64_t most_row_values = 4096;

NpyType type_of(const ParquetLeaf& leaf, const std::string& where) {
  constexpr int int32 = 1, int64 = 2, single = 4, twice = 5, fixed = 7;
  if (leaf.physical_type == int32) return {'i', 4};
  if (leaf.physical_type == int64) return {'i', 8};
  if (leaf.physical_type == single) return {'f', 4};
  if (leaf.physical_type == twice) return {'f', 8};
  if (leaf.physical_type == fixed && leaf.type_length == 2 && leaf.half_floats) return {'f', 2};
  throw error_in(where, fmt::format("holds values of type {}, no numbers", leaf.name()));
}

}  // namespace

/// The header of a page and its bytes as they are stored.
struct ParquetColumn::Page {
  std::int64_t type = -1, size = 0, packed_size = 0, values = 0, encoding = -1;
  std::int64_t definition_bytes = 0, repetition_bytes = 0, nulls = 0;  // only version 2
  bool packed = true;
  std::optional<std::uint32_t> crc;
  std::span<const std::byte> bytes;

  std::size_t read_header(std::span<const std::byte> from, const std::string& where);
};

std::size_t ParquetColumn::Page::read_header(std::span<const std::byte> from,
                                             const std::string& where) {
  ThriftReader in(from, where);
  const auto read_inner = [&](int page_kind) {
    in.read_struct([&](int id, ThriftReader::Type field) {
      const bool v2 = page_kind == 8;
      if (v2 && id == 7) return packed = field == ThriftReader::yes, false;
      if (field != ThriftReader::i32) return false;
      if (id == 1) return values = in.integer(), true;
      if (v2 && id == 2) return nulls = in.integer(), true;
      if (id == (v2 ? 4 : 2)) return encoding = in.integer(), true;
      if (v2 && id == 5) return definition_bytes = in.integer(), true;
      if (v2 && id == 6) return repetition_bytes = in.integer(), true;
      return false;
    });
  };
  in.read_struct([&](int id, ThriftReader::Type field) {
    if (field == ThriftReader::structure && (id == 5 || id == 7 || id == 8)) {
      return read_inner(id), true;
    }
    if (field != ThriftReader::i32) return false;
    if (id == 1) return type = in.integer(), true;
    if (id == 2) return size = in.integer(), true;
    if (id == 3) return packed_size = in.integer(), true;
    if (id == 4) return crc = static_cast<std::uint32_t>(in.integer()), true;
    return false;
  });
  const auto left = static_cast<std::int64_t>(from.size() - in.at());
  if (size < 0 || packed_size < 0 || packed_size > left || size > std::int64_t{1} << 31 ||
      values < 0) {
    in.refuse("has a damaged page");
  }
  if (values > most_page_values) {
    in.refuse(
        fmt::format("has a page of {} values; at most {} are read", values, most_page_values));
  }
  bytes = from.subspan(in.at(), static_cast<std::size_t>(packed_size));
  const auto sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (crc && *crc != sum) in.refuse("has a page that fails its checksum");
  return in.at() + bytes.size();
}

ParquetColumn::ParquetColumn(const ParquetFile& file, const std::string& column)
    : file_(file),
      leaf_(file.leaf(column)),
      where_(fmt::format("{}, column {}", file.path(), column)),
      type_(type_of(leaf_, where_)),
      chunks_(file.chunks(leaf_)) {
  if (leaf_.repetition > 1) throw error_in(where_, "holds lists of lists");
  if (leaf_.repetition == 0) width_ = 1;
}

bool ParquetColumn::next_chunk() {
  if (next_chunk_ == chunks_.size()) return false;
  const ParquetChunk& chunk = chunks_[next_chunk_++];
  chunk_ = file_.file().bytes().subspan(static_cast<std::size_t>(chunk.first_byte),
                                        static_cast<std::size_t>(chunk.bytes));
  chunk_values_ = chunk.values;
  codec_ = chunk.codec;
  dictionary_.clear();
  return true;
}

bool ParquetColumn::next_page() {
  while (chunk_values_ == 0) {
    if (!next_chunk()) return false;
  }
  Page page;
  const std::size_t size = page.read_header(chunk_, where_);
  if (page.type == dictionary_page) {
    read_dictionary(page);
  } else if (page.type == data_page || page.type == data_page_v2) {
    read_values(page);
  } else if (page.type != index_page) {
    throw error_in(where_, "has a damaged page");
  }
  file_.file().forget(chunk_.first(size));
  chunk_ = chunk_.subspan(size);
  return true;
}

void ParquetColumn::read_dictionary(const Page& page) {
  if (page.encoding != plain_values && page.encoding != plain_dictionary) {
    throw error_in(where_, "has a damaged dictionary");
  }
  unpack_page(codec_, page.bytes, static_cast<std::size_t>(page.size), dictionary_, where_);
  if (page.size != page.values * type_.size) throw error_in(where_, "has a damaged dictionary");
}

/// Repetition levels: 0 begins a row, 1 continues with it.
void ParquetColumn::count_rows(std::int64_t values) {
  const auto refuse = [&] { throw error_in(where_, "has rows of different lengths"); };
  for (std::int64_t i = 0; i < values; ++i) {
    const std::uint32_t level = levels_[static_cast<std::size_t>(i)];
    if (level > 1 || (level == 1 && in_row_ == 0)) refuse();
    if (level == 1) {
      ++in_row_;
      if ((width_ > 0 && in_row_ > width_) || in_row_ > most_row_values) refuse();
      continue;
    }
    if (in_row_ > 0 && width_ == 0) width_ = in_row_;
    if (in_row_ > 0 && in_row_ != width_) refuse();
    in_row_ = 1;
  }
}

void ParquetColumn::check_levels(const Page& page, std::span<const std::byte> repetition,
                                 std::span<const std::byte> definition) {
  if (leaf_.repetition > 0) {
    read_runs(repetition, 1, page.values, levels_, where_);
    count_rows(page.values);
  }
  if (leaf_.definition == 0) return;
  read_runs(definition, std::bit_width(static_cast<unsigned>(leaf_.definition)), page.values,
            levels_, where_);
  const auto present = static_cast<std::uint32_t>(leaf_.definition);
  for (const std::uint32_t level : levels_) {
    if (level != present) throw error_in(where_, "has a row without values");
  }
}

void ParquetColumn::append_plain(std::span<const std::byte> bytes, std::int64_t count) {
  const auto size = static_cast<std::size_t>(count * type_.size);
  if (bytes.size() < size) throw error_in(where_, "has a damaged page");
  values_.insert(values_.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
}

void ParquetColumn::append_indexed(std::span<const std::byte> bytes, std::int64_t count) {
  if (count == 0) return;
  if (bytes.empty()) throw error_in(where_, "has a damaged page");
  read_runs(bytes.subspan(1), static_cast<int>(bytes[0]), count, levels_, where_);
  const auto size = static_cast<std::size_t>(type_.size);
  const std::size_t entries = dictionary_.size() / size, first = values_.size();
  values_.resize(first + levels_.size() * size);
  std::byte* to = values_.data() + first;
  for (const std::uint32_t index : levels_) {
    if (index >= entries) throw error_in(where_, "has a value that its dictionary lacks");
    std::memcpy(to, dictionary_.data() + index * size, size);
    to += size;
  }
}

void ParquetColumn::read_values(const Page& page) {
  if (page.values > chunk_values_) throw error_in(where_, "has a damaged page");
  if (page.nulls > 0) throw error_in(where_, "has a row without values");
  std::span<const std::byte> rest = page.bytes, repetition, definition;
  const auto take = [&](std::int64_t size) {
    if (size < 0 || size > std::ssize(rest)) throw error_in(where_, "has a damaged page");
    const auto part = rest.first(static_cast<std::size_t>(size));
    rest = rest.subspan(part.size());
    return part;
  };
  if (page.type == data_page_v2) {  // levels are not compressed
    repetition = take(page.repetition_bytes);
    definition = take(page.definition_bytes);
    const std::int64_t size = page.size - page.repetition_bytes - page.definition_bytes;
    if (size < 0) throw error_in(where_, "has a damaged page");
    unpack_page(page.packed ? codec_ : ParquetCodec::none, rest, static_cast<std::size_t>(size),
                page_, where_);
    rest = page_;
  } else {
    unpack_page(codec_, rest, static_cast<std::size_t>(page.size), page_, where_);
    rest = page_;
    const auto levels = [&] {  // they follow their length
      std::uint32_t size = 0;
      std::memcpy(&size, take(4).data(), 4);
      return take(size);
    };
    if (leaf_.repetition > 0) repetition = levels();
    if (leaf_.definition > 0) definition = levels();
  }
  check_levels(page, repetition, definition);
  values_.erase(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(handed_out_));
  handed_out_ = 0;
  if (page.encoding == plain_values) {
    append_plain(rest, page.values);
  } else if (page.encoding == rle_dictionary || page.encoding == plain_dictionary) {
    append_indexed(rest, page.values);
  } else {
    throw error_in(where_, fmt::format("is of encoding {}", page.encoding),
                   "write it with plain or dictionary encoding, which are what writers use by "
                   "default");
  }
  chunk_values_ -= page.values;
}

NpyArray ParquetColumn::read(std::int64_t most_rows) {
  const auto whole_rows = [&] {
    if (width_ == 0) return std::int64_t{0};
    return (std::ssize(values_) - static_cast<std::int64_t>(handed_out_)) / type_.size / width_;
  };
  bool ended = false;
  while (!ended && whole_rows() < most_rows) ended = !next_page();
  if (ended) {
    if (width_ == 0) width_ = in_row_;  // the only row
    if (leaf_.repetition > 0 && in_row_ != width_) {
      throw error_in(where_, "has rows of different lengths");
    }
  }
  const std::int64_t rows = std::min(whole_rows(), most_rows);
  const auto size = static_cast<std::ptrdiff_t>(rows * width_ * type_.size);
  const auto first = values_.begin() + static_cast<std::ptrdiff_t>(handed_out_);
  const auto part = std::make_shared<const std::vector<std::byte>>(first, first + size);
  handed_out_ += static_cast<std::size_t>(size);
  return NpyArray::view(type_, {rows, width_}, *part, part, where_);
}

}  // namespace moesim
