// SPDX-License-Identifier: Apache-2.0
// Plain lines of a log that name what they tell: "layer=3 token=5 experts=[1, 6]", or a heading
// "Layer 3" over lines "Token 5: [1, 6]", or the tensors that llama.cpp prints.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/line_file.h"
#include "sim/import/log_values.h"
#include "sim/import/table_rows.h"

namespace moesim {

class LogLines {
 public:
  /// `counted`: lines with lists of counts are rows, too.
  LogLines(const TableFields& fields, const TableReader::Use& use, TableFacts& facts, bool counted)
      : fields_(fields), use_(use), facts_(facts), counted_(counted) {}

  void read(LineFile& lines, const TableReader::Progress& progress);
  std::int64_t rows() const { return rows_; }

 private:
  struct LineParts;
  void read_line(const std::string& line, TableRow row);
  std::vector<NamedValue> values_behind_tags(std::string_view line) const;
  std::optional<TableRole> role_of(const NamedValue& named) const;
  bool counts_expert(const NamedValue& named) const;
  void fill_text(const NamedValue& named, LineParts& parts, TableRow& row) const;
  void fill_value(const NamedValue& named, LineParts& parts, TableRow& row);
  bool fill_values(const std::string& line, TableRow& row);
  bool passes_tensor(const std::string& line, const TableRow& row);

  const TableFields& fields_;
  const TableReader::Use& use_;
  TableFacts& facts_;
  bool counted_;
  std::optional<std::int64_t> layer_, step_;  // of the lines before
  std::string request_;
  bool in_tensor_ = false, of_ids_ = false;  // below a heading of a tensor; of chosen experts
  std::array<bool, table_roles> found_ = {};
  std::int64_t rows_ = 0;
};

}  // namespace moesim
