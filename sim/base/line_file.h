// SPDX-License-Identifier: Apache-2.0
// A text file, plain or gzip, line by line or block by block: recordings of many requests are
// larger than memory.
#pragma once

#include <zlib.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

class TextBlocks {
 public:
  /// "-" is standard input. Throws Error when it cannot be read.
  explicit TextBlocks(const std::string& path);
  ~TextBlocks();
  TextBlocks(const TextBlocks&) = delete;
  TextBlocks& operator=(const TextBlocks&) = delete;

  const std::string& path() const { return path_; }
  /// The next block, until the one after it is read; empty at the end. Throws Error for a damaged
  /// file.
  std::string_view next();
  /// Throws Error if a line or value of so many bytes was packed to fill the memory.
  void check_packing(std::size_t unpacked) const;
  /// The share of the file that is read.
  double done() const;

 private:
  std::string path_;
  gzFile file_;
  std::size_t size_;  // as it is packed
  std::vector<char> block_;
};

class LineFile {
 public:
  /// Throws Error when it cannot be read, or is UTF-16. A mark of UTF-8 is no part of a line.
  explicit LineFile(const std::string& path) : blocks_(path) {}

  const std::string& path() const { return blocks_.path(); }
  /// Reads the next line that is not blank; false at the end. Throws Error for a damaged file.
  bool next(std::string& line);
  int line_number() const { return line_number_; }
  /// The share of the file that is read.
  double done() const { return blocks_.done(); }

 private:
  TextBlocks blocks_;
  std::string_view rest_;  // of the block
  int line_number_ = 0;
  bool begun_ = false;
};

}  // namespace moesim
