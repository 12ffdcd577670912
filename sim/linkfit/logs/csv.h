// SPDX-License-Identifier: Apache-2.0
// Tables of exchange times whose columns have names, and the log that their rows make.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/linkfit/logs/formats.h"

namespace moesim {

/// Rows of a CSV file by the names of its columns.
class Csv {
 public:
  Csv(const std::string& text, std::string file);

  const std::string& file() const { return file_; }
  const std::vector<std::string>& names() const { return names_; }
  bool has(const std::string& name) const;
  int first() const { return first_; }                          // the line of the names
  int size() const { return static_cast<int>(lines_.size()); }  // lines

  struct Row {
    int line;
    std::vector<std::string> cells;
  };
  /// Whether a line is blank, or a rule below the names as in Markdown: "|---|--:|".
  bool is_rule(int line) const;
  Row row(int line) const;
  std::string text(const Row& row, const std::string& name) const;
  double number(const Row& row, const std::string& name, double least = 1e-12) const;

 private:
  /// Names the column of nodes that rccl-tests up to 2025 left out above their rows.
  void name_nodes();

  std::string file_;
  std::vector<std::string> lines_, names_;
  int first_ = 1;
  char separator_ = ',';
};

/// A row as every table means it.
struct TimedExchange {
  Setting setting;
  double bytes;  // "size" of nccl-tests
  Seconds time;
};
using ReadExchange = std::function<std::optional<TimedExchange>(const Csv::Row&)>;

/// Takes the rows that are chosen; they must be of one setting.
void take_rows(const Csv& csv, const LogChoice& choice, const ReadExchange& read, Log& log);

/// Whether a line names the columns of nccl-tests between separators: a size and a time.
bool names_exchange_times(const std::string& line);
/// Rows of nccl-tests of which a script made a table: sizes in bytes, times in us unless their
/// column says ms or s.
Log read_exchange_times(const Csv& csv, const LogChoice& choice);

}  // namespace moesim
