// SPDX-License-Identifier: Apache-2.0
// What a command prints: lines for people and tables, in order. How it is laid out is up to
// sim/print/render.h.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// A place of a table: what people read, and the number behind it for programs.
struct Cell {
  Cell(std::string words = "") : text(std::move(words)) {}
  Cell(const char* words) : text(words) {}
  Cell(Seconds time);
  Cell(Bytes bytes);
  Cell(int number) : Cell(std::int64_t{number}) {}
  Cell(std::int64_t number);
  Cell(std::string words, double number, const char* unit = "")
      : text(std::move(words)), value(number), of_unit(unit) {}

  std::string text;
  std::optional<double> value = {};
  const char* of_unit = "";  // of the value: "s", "B"
  bool operator==(const Cell& other) const { return text == other.text; }
};

/// "-", in a column whose values are of that unit.
Cell no_value(const char* unit);
/// "12.3 %" with `digits` behind the point; the value is the fraction.
Cell percent_cell(double fraction, int digits);
/// "1.44x".
Cell ratio_cell(double ratio, int digits);

/// A column of a table.
struct TableColumn {
  enum class Kind {
    key,     // names the row: to the left, in every block, always shown
    prose,   // sentences: to the left, always shown, wrapped on a narrow terminal
    figure,  // to the right; the first ones are shown if a terminal is too narrow for all
    words    // as a figure, but to the left
  };
  std::string name;
  Kind kind = Kind::figure;
  int block = 0;        // columns of a block are next to each other, with the keys before them
  bool telling = true;  // false: no row has something to say; shown only if it is asked for
  std::string id = {};  // for programs and flags, if another column has the name
  bool operator==(const TableColumn&) const = default;
};

struct Table {
  Table(std::string of_name, std::vector<TableColumn> of_columns)
      : name(std::move(of_name)), columns(std::move(of_columns)) {}
  /// The first `keys` of the names are of keys, the others of figures.
  Table(std::string of_name, std::size_t keys, const std::vector<std::string>& names);

  std::string name;                      // for programs: "cases"
  std::vector<std::string> titles = {};  // [block] the line above it, else nothing
  std::vector<TableColumn> columns;
  std::vector<std::vector<Cell>> rows = {};
  bool operator==(const Table&) const = default;
};

class Printout {
 public:
  Printout& add(std::string text);  // lines that end in \n
  Printout& add(Table table);
  Printout& add(const Printout& other);

  const std::vector<std::variant<std::string, Table>>& parts() const { return parts_; }
  /// All columns of all tables, as it goes to a file.
  std::string text() const;
  bool operator==(const Printout&) const = default;

 private:
  std::vector<std::variant<std::string, Table>> parts_;
};

/// Columns of text, aligned: the first `left` columns to the left, the others to the right.
std::string align(const std::vector<std::vector<std::string>>& rows, std::size_t left);

}  // namespace moesim
