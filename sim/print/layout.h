// SPDX-License-Identifier: Apache-2.0
// One table as text.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"

namespace moesim {

/// How a table fits a terminal.
struct TableLayout {
  int width = 0;  // 0: all columns, nothing wrapped
  bool color = false;
};

/// The blocks of the table, an empty line between them. `left_out` gets the flags of columns for
/// which the terminal is too narrow.
std::string laid_out(const Table& table, const TableLayout& layout,
                     std::vector<std::string>& left_out);

/// Lines of at most `width` characters if words allow; what follows the first line of a comment
/// begins with "#   ".
std::string wrapped_lines(const std::string& text, int width);

}  // namespace moesim
