// SPDX-License-Identifier: Apache-2.0
#include "sim/print/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/text.h"
#include "sim/base/units.h"
#include "sim/print/render.h"

namespace moesim {

Cell::Cell(Seconds time) : text(to_string(time)), value(time.value), of_unit("s") {}
Cell::Cell(Bytes bytes)
    : text(to_string(bytes)), value(static_cast<double>(bytes.value)), of_unit("B") {}
Cell::Cell(std::int64_t number)
    : text(std::to_string(number)), value(static_cast<double>(number)) {}

Cell no_value(const char* unit) {
  Cell none("-");
  none.of_unit = unit;
  return none;
}

Cell percent_cell(double fraction, int digits) {
  return {fmt::format("{:.{}f} %", 100 * fraction, digits), fraction};
}

Cell ratio_cell(double ratio, int digits) {
  return {fmt::format("{:.{}f}x", ratio, digits), ratio};
}

Table::Table(std::string of_name, std::size_t keys, const std::vector<std::string>& names)
    : name(std::move(of_name)) {
  for (const std::string& column : names) {
    const bool key = columns.size() < keys;
    columns.push_back({column, key ? TableColumn::Kind::key : TableColumn::Kind::figure});
  }
}

Printout& Printout::add(std::string text) {
  if (!text.empty()) parts_.emplace_back(printable(text));
  return *this;
}

Printout& Printout::add(Table table) {
  for (std::string& title : table.titles) title = printable(title);
  for (std::vector<Cell>& row : table.rows) {
    for (Cell& cell : row) cell.text = printable(cell.text);
  }
  parts_.emplace_back(std::move(table));
  return *this;
}

Printout& Printout::add(const Printout& other) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
  return *this;
}

std::string Printout::text() const { return render(*this, {}).text; }

std::string align(const std::vector<std::vector<std::string>>& rows, std::size_t left) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += i < left ? fmt::format("{:<{}}", row[i], widths[i])
                       : fmt::format("{:>{}}", row[i], widths[i]);
      if (i + 1 < row.size()) line += "  ";
    }
    while (line.ends_with(' ')) line.pop_back();
    text += line + "\n";
  }
  return text;
}

}  // namespace moesim
