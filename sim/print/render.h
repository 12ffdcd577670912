// SPDX-License-Identifier: Apache-2.0
// Lays a printout out: for a terminal of some width, for a file, or for a program.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "sim/print/table.h"

namespace moesim {

enum class PrintFormat { table, csv, json, markdown };
inline const std::vector<std::string> print_format_names = {"table", "csv", "json", "markdown"};

struct PrintStyle {
  PrintFormat format = PrintFormat::table;
  int width = 0;  // of the terminal; 0: nothing is left out or wrapped
  bool color = false;
  bool hint = true;                       // at the end: which columns were left out
  std::vector<std::string> columns = {};  // the requested ones, in this order
  std::string sort = {};                  // by this column; "-" before it: descending
};

/// Lines that are not part of a table go to `beside` where `text` is for a program.
struct Rendered {
  std::string text, beside;
};

/// Throws Error for a column that no table has.
Rendered render(const Printout& printout, const PrintStyle& style);

/// Throws Error for a column of the style that no table has.
void require_columns(const Printout& printout, const PrintStyle& style);

/// How a column is written on a command line: "load max/mean" is load-max-mean.
std::string column_flag(const std::string& name);
std::string column_flag(const TableColumn& column);

}  // namespace moesim
