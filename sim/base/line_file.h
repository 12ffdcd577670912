// SPDX-License-Identifier: Apache-2.0
// A text file, plain or gzip, line by line.
#pragma once

#include <string>

#include "sim/base/text_blocks.h"

namespace moesim {

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
