// SPDX-License-Identifier: Apache-2.0
// Lays out one table as text.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"

namespace moesim {

/// What a table may use of the terminal: its width and its colors.
struct TableLayout {
  /// Characters per line. 0: shows all columns and wraps nothing.
  int width = 0;
  bool color = false;
};

/// Prints the blocks of the table with an empty line between them. If the width is too small for a
/// column, adds its name, as --columns takes it, to `left_out`.
std::string laid_out(const Table& table, const TableLayout& layout,
                     std::vector<std::string>& left_out);

/// Breaks lines between words so that they have at most `width` characters, unless one word is
/// longer. If a line begins with "# ", the lines that continue it begin with "#   ".
std::string wrapped_lines(const std::string& text, int width);

}  // namespace moesim
