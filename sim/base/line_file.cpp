// SPDX-License-Identifier: Apache-2.0
#include "sim/base/line_file.h"

#include "sim/base/text.h"

namespace moesim {

bool LineFile::next(std::string& line) {
  for (;;) {
    line.clear();
    bool ended = false;
    while (!ended) {
      if (rest_.empty()) {
        const std::string_view block = blocks_.next();
        rest_ = begun_ ? block : without_mark(block, path());
        begun_ = true;
        if (rest_.empty()) break;
      }
      const std::size_t newline = rest_.find('\n');
      ended = newline != std::string_view::npos;
      line.append(rest_.substr(0, newline));
      rest_.remove_prefix(ended ? newline + 1 : rest_.size());
      blocks_.check_packing(line.size());
    }
    if (line.empty() && !ended) return false;
    ++line_number_;
    if (line.find_first_not_of(" \t\r") != std::string::npos) return true;
  }
}

}  // namespace moesim
