// SPDX-License-Identifier: Apache-2.0
#include "sim/import/parquet/parquet_file.h"

#include <fmt/format.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "sim/base/error.h"
#include "sim/import/parquet/thrift.h"

namespace moesim {
namespace {

bool unpack_gzip(std::span<const std::byte> packed, std::vector<std::byte>& out) {
  z_stream stream{};
  if (::inflateInit2(&stream, MAX_WBITS + 32) != Z_OK) return false;  // gzip's header or zlib's
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = ::inflate(&stream, Z_FINISH);
  const bool whole = status == Z_STREAM_END && stream.avail_out == 0;
  ::inflateEnd(&stream);
  return whole;
}

bool unpack_snappy(std::span<const std::byte> packed, std::vector<std::byte>& out) {
  const auto* const from = reinterpret_cast<const char*>(packed.data());
  std::size_t size = out.size();  // that there is room for, then of what was packed
  const auto status =
      ::snappy_uncompress(from, packed.size(), reinterpret_cast<char*>(out.data()), &size);
  return status == SNAPPY_OK && size == out.size();
}

using Thrift = ThriftReader;

/// A node of the schema, in the order of a walk from the root.
struct SchemaNode {
  std::string name;
  std::int64_t type = -1, type_length = 0, repetition = 0, children = 0;
  bool half_floats = false;
};

SchemaNode read_node(Thrift& in) {
  SchemaNode node;
  in.read_struct([&](int id, Thrift::Type type) {
    if (id == 1 && type == Thrift::i32) return node.type = in.integer(), true;
    if (id == 2 && type == Thrift::i32) return node.type_length = in.integer(), true;
    if (id == 3 && type == Thrift::i32) return node.repetition = in.integer(), true;
    if (id == 4 && type == Thrift::binary) return node.name = in.text(), true;
    if (id == 5 && type == Thrift::i32) return node.children = in.integer(), true;
    if (id != 10 || type != Thrift::structure) return false;
    in.read_struct([&](int logical, Thrift::Type) {
      node.half_floats = logical == 15;
      return false;
    });
    return true;
  });
  return node;
}

/// Adds the leaves below a node.
void walk_schema(const std::vector<SchemaNode>& nodes, std::size_t& at, ParquetLeaf above,
                 int depth, std::vector<ParquetLeaf>& leaves, const std::string& path) {
  if (at >= nodes.size() || depth > 16) throw error_in(path, "has a damaged schema");
  const SchemaNode& node = nodes[at++];
  if (depth == 1) above.column = node.name;
  if (depth > 0) {
    above.definition += node.repetition != 0 ? 1 : 0;
    above.repetition += node.repetition == 2 ? 1 : 0;
  }
  if (node.children < 0 || node.children > std::ssize(nodes)) {
    throw error_in(path, "has a damaged schema");
  }
  for (std::int64_t i = 0; i < node.children; ++i) {
    walk_schema(nodes, at, above, depth + 1, leaves, path);
  }
  if (node.children > 0 || depth == 0) return;
  above.index = static_cast<int>(leaves.size());
  above.physical_type = static_cast<int>(node.type);
  above.type_length = static_cast<int>(node.type_length);
  above.half_floats = node.half_floats;
  leaves.push_back(above);
}

}  // namespace

void unpack_page(ParquetCodec codec, std::span<const std::byte> packed, std::size_t size,
                 std::vector<std::byte>& out, const std::string& where) {
  // A large page that claims to unpack to more than this was made to fill the memory.
  constexpr std::size_t likely_ratio = 200, always_unpacked = 32U << 20;
  if (size > always_unpacked && size / likely_ratio > packed.size()) {
    throw error_in(
        where, fmt::format("has a page that unpacks to more than {} times its size", likely_ratio));
  }
  out.resize(size);
  bool whole = false;
  if (codec == ParquetCodec::none) {
    whole = packed.size() == size;
    if (whole) std::ranges::copy(packed, out.begin());
  } else if (size == 0 && packed.empty()) {
    whole = true;
  } else if (codec == ParquetCodec::snappy) {
    whole = unpack_snappy(packed, out);
  } else if (codec == ParquetCodec::gzip) {
    whole = unpack_gzip(packed, out);
  } else {
    whole = ::ZSTD_decompress(out.data(), size, packed.data(), packed.size()) == size;
  }
  if (!whole) throw error_in(where, "has a damaged page");
}

void read_runs(std::span<const std::byte> bytes, int width, std::int64_t count,
               std::vector<std::uint32_t>& out, const std::string& where) {
  out.clear();
  if (width < 0 || width > 24) throw error_in(where, fmt::format("has numbers of {} bits", width));
  const auto total = static_cast<std::size_t>(count);
  const auto bits = static_cast<std::size_t>(width);
  std::size_t at = 0;
  const auto need = [&](std::size_t size) {
    if (size > bytes.size() - at) throw error_in(where, "has a damaged page");
  };
  while (out.size() < total) {
    std::uint64_t head = 0;
    for (unsigned shift = 0;; shift += 7) {
      need(1);
      const auto part = static_cast<std::uint8_t>(bytes[at++]);
      head |= std::uint64_t{part & 0x7fU} << shift;
      if ((part & 0x80U) == 0) break;
      if (shift >= 28) throw error_in(where, "has a damaged page");
    }
    if ((head & 1) == 0) {  // a run of one number
      const std::size_t size = (bits + 7) / 8;
      need(size);
      std::uint32_t value = 0;
      std::memcpy(&value, bytes.data() + at, size);
      at += size;
      out.resize(std::min(total, out.size() + (head >> 1)), value);
      if (head == 0) throw error_in(where, "has a damaged page");
      continue;
    }
    std::size_t values = (head >> 1) * 8;  // packed, the first in the lowest bits
    need((head >> 1) * bits);
    const std::byte* const from = bytes.data() + at;
    const std::size_t end = bytes.size() - at;
    at += (head >> 1) * bits;
    values = std::min(values, total - out.size());
    const std::uint32_t mask = (1U << bits) - 1;
    const std::size_t first = out.size();
    out.resize(first + values);
    for (std::size_t i = 0; i < values; ++i) {
      const std::size_t bit = i * bits;
      std::uint32_t word = 0;
      if (bit / 8 + 4 <= end) {
        std::memcpy(&word, from + bit / 8, 4);
      } else {
        std::memcpy(&word, from + bit / 8, end - bit / 8);
      }
      out[first + i] = word >> bit % 8 & mask;
    }
    if (head == 1) throw error_in(where, "has a damaged page");
  }
}

std::string ParquetLeaf::name() const {
  constexpr std::array<const char*, 8> names = {"BOOLEAN", "INT32",  "INT64",      "INT96",
                                                "FLOAT",   "DOUBLE", "BYTE_ARRAY", "FIXED"};
  const bool known = physical_type >= 0 && physical_type < std::ssize(names);
  return known ? names[static_cast<std::size_t>(physical_type)] : "unknown";
}

ParquetFile::ParquetFile(const std::string& path)
    : path_(path), file_(std::make_shared<const MappedFile>(path)) {
  constexpr std::size_t tail = 8, most_metadata = 64U << 20;
  const auto bytes = file_->bytes();
  const auto magic = [&](std::size_t at, const char* text) {
    return std::memcmp(bytes.data() + at, text, 4) == 0;
  };
  if (bytes.size() >= tail + 4 && magic(bytes.size() - 4, "PARE")) {
    throw error_in(path, "is encrypted");
  }
  if (bytes.size() < tail + 4 || !magic(0, "PAR1") || !magic(bytes.size() - 4, "PAR1")) {
    throw error_in(path, "is not a whole Parquet file", "copy it again");
  }
  std::uint32_t size = 0;
  std::memcpy(&size, bytes.data() + bytes.size() - tail, 4);
  if (size > bytes.size() - tail - 4 || size > most_metadata) {
    throw error_in(path, "its metadata is longer than it may be");
  }
  Thrift in(bytes.subspan(bytes.size() - tail - size, size), path);
  in.read_struct([&](int id, Thrift::Type type) {
    if (id == 2 && type == Thrift::list) return read_schema(in), true;
    if (id == 3 && type == Thrift::i64) return rows_ = in.integer(), true;
    if (id != 4 || type != Thrift::list) return false;
    in.read_list(Thrift::structure, [&] { read_row_group(in); });
    return true;
  });
  if (rows_ < 0 || leaves_.empty()) throw error_in(path, "its metadata is damaged");
}

void ParquetFile::read_schema(Thrift& in) {
  std::vector<SchemaNode> nodes;
  in.read_list(Thrift::structure, [&] { nodes.push_back(read_node(in)); });
  leaves_.clear();
  std::size_t at = 0;
  walk_schema(nodes, at, {}, 0, leaves_, path_);
  if (at != nodes.size()) throw error_in(path_, "has a damaged schema");
}

void ParquetFile::read_row_group(Thrift& in) {
  const auto read_chunk = [&] {
    ParquetChunk chunk;
    std::int64_t codec = 0, dictionary = 0;
    in.read_struct([&](int id, Thrift::Type type) {
      if (id != 3 || type != Thrift::structure) return false;
      in.read_struct([&](int field, Thrift::Type its) {
        if (its != Thrift::i32 && its != Thrift::i64) return false;
        if (field == 1) return chunk.physical_type = static_cast<int>(in.integer()), true;
        if (field == 4) return codec = in.integer(), true;
        if (field == 5) return chunk.values = in.integer(), true;
        if (field == 7) return chunk.bytes = in.integer(), true;
        if (field == 9) return chunk.first_byte = in.integer(), true;
        if (field == 11) return dictionary = in.integer(), true;
        return false;
      });
      return true;
    });
    if (codec != 0 && codec != 1 && codec != 2 && codec != 6) {
      throw error_in(path_, fmt::format("is compressed by codec {}", codec),
                     "Snappy, gzip, Zstandard and no compression are read");
    }
    chunk.codec = static_cast<ParquetCodec>(codec);
    if (dictionary > 0) chunk.first_byte = std::min(chunk.first_byte, dictionary);
    const auto size = static_cast<std::int64_t>(file_->bytes().size());
    if (chunk.values < 0 || chunk.first_byte < 0 || chunk.bytes < 0 || chunk.bytes > size ||
        chunk.first_byte > size - chunk.bytes) {
      throw error_in(path_, "its metadata is damaged");
    }
    groups_.back().push_back(chunk);
  };
  groups_.emplace_back();
  in.read_struct([&](int id, Thrift::Type type) {
    if (id != 1 || type != Thrift::list) return false;
    in.read_list(Thrift::structure, read_chunk);
    return true;
  });
}

bool ParquetFile::has(const std::string& column) const {
  return std::ranges::find(leaves_, column, &ParquetLeaf::column) != leaves_.end();
}

const ParquetLeaf& ParquetFile::leaf(const std::string& column) const {
  const auto found = std::ranges::find(leaves_, column, &ParquetLeaf::column);
  if (found == leaves_.end()) {
    std::vector<std::string> names;
    for (const ParquetLeaf& leaf : leaves_) names.push_back(leaf.column);
    throw error_in(path_, fmt::format("has no column '{}'", column), did_you_mean(column, names));
  }
  if (std::ranges::count(leaves_, column, &ParquetLeaf::column) > 1) {
    throw error_in(path_, fmt::format("its column '{}' holds several values a row", column));
  }
  return *found;
}

std::vector<ParquetChunk> ParquetFile::chunks(const ParquetLeaf& leaf) const {
  std::vector<ParquetChunk> chunks;
  for (const auto& group : groups_) {
    if (group.size() != leaves_.size() ||
        group[static_cast<std::size_t>(leaf.index)].physical_type != leaf.physical_type) {
      throw error_in(path_, "its metadata is damaged");
    }
    chunks.push_back(group[static_cast<std::size_t>(leaf.index)]);
  }
  return chunks;
}

}  // namespace moesim
