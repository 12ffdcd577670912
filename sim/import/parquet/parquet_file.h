// SPDX-License-Identifier: Apache-2.0
// Parquet files (github.com/apache/parquet-format): columns of numbers, or of lists of numbers, are
// read: what recorders of routing write. Debian has no library for them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/import/parquet/pages.h"
#include "sim/trace/mapped_file.h"
#include "sim/trace/npy.h"

namespace moesim {

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
