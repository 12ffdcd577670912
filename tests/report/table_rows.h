// SPDX-License-Identifier: Apache-2.0
// The rows of a table within a printout, as text.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"

namespace moesim::test {

/// Rows of the table of that name, cells between "|".
inline std::vector<std::string> rows_of(const Printout& printout, const std::string& name) {
  std::vector<std::string> rows;
  for (const auto& part : printout.parts()) {
    const auto* table = std::get_if<Table>(&part);
    if (table == nullptr || table->name != name) continue;
    for (const auto& row : table->rows) {
      std::string text;
      for (const Cell& cell : row) text += cell.text + "|";
      rows.push_back(text.substr(0, text.size() - 1));
    }
  }
  return rows;
}

}  // namespace moesim::test
