// SPDX-License-Identifier: Apache-2.0
// The rows of a table of nccl-tests as logs have them: whole, in pieces, or with one half blank.
#pragma once

#include <string>
#include <vector>

#include "sim/linkfit/logs/nccl_lines.h"
#include "sim/linkfit/logs/nccl_table.h"

namespace moesim {

/// Joins rows that other output broke, and says which cannot be read.
class NcclRows {
 public:
  NcclRows() = default;
  /// `names`: the line with the names of the columns.
  NcclRows(NcclTable table, std::string names)
      : table_(std::move(table)), names_(std::move(names)) {}

  const NcclTable& table() const { return table_; }
  /// Whether a row has begun that is not whole.
  bool open() const { return !pending_.empty(); }
  int open_line() const { return first_.number; }

  void begin(const RowWords& row, const std::string& line, int number);
  /// Whether the line is of the row that is open; adds what it has of it.
  bool continues(const std::string& line);
  /// The words of the open row, and closes it, if all of it is there; else empty.
  std::vector<std::string> whole();
  /// Gives the open row up, if there is one: its end is lost.
  void drop();
  /// Notes the first line that looks like a row but is none.
  void note_other(const std::string& line, int number);
  /// The test ends. An open row is cut. If all rows have only one half, they are added with the
  /// other as "N/A". Throws Error as the table does, and if no row can be read.
  void finish(const std::string& file, NcclTest& test);

 private:
  struct FirstLine {
    int number = 0;
    std::string text;
    RowWords words;
  };
  /// The words of a row whose values are all below the names of one half; else empty.
  std::vector<std::string> with_one_half(const FirstLine& row) const;
  std::string fault_of(const FirstLine& row) const;

  NcclTable table_;
  std::string names_;
  std::vector<std::string> pending_;  // size and values of a row that may not be whole
  FirstLine first_;                   // of the row that is open
  bool open_end_ = false;             // the first line of the row ends in a word
  std::vector<FirstLine> dropped_;    // rows that are not whole
  int other_line_ = 0;                // looks like a row; 0: none does
};

}  // namespace moesim
