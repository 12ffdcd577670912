// SPDX-License-Identifier: Apache-2.0
// Parquet files (github.com/apache/parquet-format): columns of numbers, or of lists of numbers, are
// read: what recorders of routing write. Pages hold compressed bytes, runs of small numbers and
// plain values. Debian has no library for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/trace/mapped_file.h"
#include "sim/trace/npy.h"

namespace moesim {

/// CompressionCodec of Parquet's metadata.
enum class ParquetCodec { none = 0, snappy = 1, gzip = 2, zstd = 6 };

/// Unpacks to exactly `size` bytes. Throws Error naming `where` for what does not.
void unpack_page(ParquetCodec codec, std::span<const std::byte> packed, std::size_t size,
                 std::vector<std::byte>& out, const std::string& where);

/// Reads `count` numbers of `width` bits (at most 24) in Parquet's hybrid of runs and packed groups
/// of eight. Throws Error for bytes that end before.
void read_runs(std::span<const std::byte> bytes, int width, std::int64_t count,
               std::vector<std::uint32_t>& out, const std::string& where);

class ThriftReader;

/// A leaf of the schema.
struct ParquetLeaf {
  std::string column;  // the top-level field that it is in
  int index = 0;       // among all leaves
  int physical_type = 0, type_length = 0;
  int definition = 0, repetition = 0;  // highest levels
  bool half_floats = false;
  std::string name() const;  // the file's word for its type
};

/// A column's part of a row group.
struct ParquetChunk {
  int physical_type = 0;
  ParquetCodec codec = ParquetCodec::none;
  std::int64_t values = 0, first_byte = 0, bytes = 0;
};

class ParquetFile {
 public:
  /// Reads the metadata, no page. Throws Error for what is not a Parquet file, or encrypted.
  explicit ParquetFile(const std::string& path);

  const std::string& path() const { return path_; }
  std::int64_t rows() const { return rows_; }
  bool has(const std::string& column) const;
  /// The only leaf of a column. Throws Error if there is none, or several.
  const ParquetLeaf& leaf(const std::string& column) const;
  /// For each row group, the chunk of that leaf.
  std::vector<ParquetChunk> chunks(const ParquetLeaf& leaf) const;
  const MappedFile& file() const { return *file_; }

 private:
  void read_schema(ThriftReader& in);
  void read_row_group(ThriftReader& in);

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  std::int64_t rows_ = -1;
  std::vector<ParquetLeaf> leaves_;
  std::vector<std::vector<ParquetChunk>> groups_;  // [row group][leaf]
};

}  // namespace moesim
