// SPDX-License-Identifier: Apache-2.0
// A column of equally long lists of numbers, page by page.
#pragma once

#include <string>
#include <vector>

#include "sim/import/parquet/parquet_file.h"

namespace moesim {

class ParquetColumn {
 public:
  /// Throws Error for a column that is none of numbers or lists of them.
  ParquetColumn(const ParquetFile& file, const std::string& column);

  /// The next rows, at most so many, [row][width]; none at the end. Throws Error for a damaged
  /// page, a missing value, or rows of different lengths.
  NpyArray read(std::int64_t most_rows);

 private:
  struct Page;
  bool next_page();
  bool next_chunk();
  void read_dictionary(const Page& page);
  void read_values(const Page& page);
  void check_levels(const Page& page, std::span<const std::byte> repetition,
                    std::span<const std::byte> definition);
  void count_rows(std::int64_t values);
  void append_plain(std::span<const std::byte> bytes, std::int64_t count);
  void append_indexed(std::span<const std::byte> bytes, std::int64_t count);

  const ParquetFile& file_;
  ParquetLeaf leaf_;
  std::string where_;
  NpyType type_;
  std::vector<ParquetChunk> chunks_;
  std::size_t next_chunk_ = 0;
  std::int64_t chunk_values_ = 0;     // of the chunk that are not read yet
  std::span<const std::byte> chunk_;  // its bytes that are not read yet
  ParquetCodec codec_ = ParquetCodec::none;
  std::vector<std::byte> dictionary_, page_, values_;
  std::size_t handed_out_ = 0;  // bytes of values_
  std::vector<std::uint32_t> levels_;
  std::int64_t width_ = 0, in_row_ = 0;  // in_row_: values of the row that is begun
};

}  // namespace moesim
