// SPDX-License-Identifier: Apache-2.0
// Plain lines of a log that name what they tell: "layer=3 token=5 experts=[1, 6]", or a heading
// "Layer 3" over lines "Token 5: [1, 6]", or the tensors that llama.cpp prints.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/line_file.h"
#include "sim/import/table_rows.h"

namespace moesim {

/// A value of a line and the words before it, the last first: {"ids", "expertids"}.
struct NamedValue {
  std::vector<std::string> names;
  std::string text;
  bool follows = false;    // the value before it, with nothing but commas and blanks between
  std::string after = "";  // the word after it, if only blanks are between: "5 tokens"
};

class LogLines {
 public:
  /// `counted`: lines with lists of counts are rows, too.
  LogLines(const TableFields& fields, const TableReader::Use& use, bool counted)
      : fields_(fields), use_(use), counted_(counted) {}

  void read(LineFile& lines, const TableReader::Progress& progress);
  std::int64_t rows() const { return rows_; }

 private:
  void read_line(const std::string& line, TableRow row);
  std::vector<NamedValue> values_behind_tags(std::string_view line) const;
  std::optional<TableRole> role_of(const NamedValue& named) const;
  bool fill_values(const std::string& line, TableRow& row) const;
  bool passes_tensor(const std::string& line, const TableRow& row);

  const TableFields& fields_;
  const TableReader::Use& use_;
  bool counted_;
  std::optional<std::int64_t> layer_, step_;  // of the lines before
  std::string request_;
  bool in_tensor_ = false, of_ids_ = false;  // below a heading of a tensor; of chosen experts
  std::int64_t rows_ = 0;
};

}  // namespace moesim
