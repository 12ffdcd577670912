// SPDX-License-Identifier: Apache-2.0
// A text file, plain or gzip, line by line: recordings of many requests are larger than memory.
#pragma once

#include <zlib.h>

#include <string>
#include <vector>

namespace moesim {

class LineFile {
 public:
  /// Throws Error when it cannot be read.
  explicit LineFile(const std::string& path);
  ~LineFile();
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;

  const std::string& path() const { return path_; }
  /// Reads the next line that is not blank; false at the end. Throws Error for a damaged file.
  bool next(std::string& line);
  int line_number() const { return line_number_; }
  /// The share of the file that is read.
  double done() const;

 private:
  bool fill();

  std::string path_;
  gzFile file_;
  double size_ = 0;
  std::vector<char> block_;
  std::size_t at_ = 0, end_ = 0;
  int line_number_ = 0;
};

}  // namespace moesim
