// SPDX-License-Identifier: Apache-2.0
#include "sim/import/count_rows.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/import/count_limits.h"
#include "sim/import/table_fields.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

class CountRows {
 public:
  explicit CountRows(const std::string& path) : path_(path) {}

  void add(const std::string& text, int line) {
    const char separator = separator_of(text);
    const auto cells = cells_of(text, separator == '\0' ? ' ' : separator);
    const bool logged = text.find_first_of("=:{") != std::string::npos;
    if (rows_.empty() && !header_ && is_header(cells, logged)) return take_header(cells, line);
    auto& row = rows_[numbered_ ? number_of(cells.front(), line) : std::ssize(rows_)];
    if (!row.empty()) {
      throw error_in(path_, fmt::format("has two rows of {} {}", key_, cells.front()),
                     "a file holds one step", line);
    }
    for (std::size_t i = numbered_ ? 1 : 0; i < cells.size(); ++i) {
      row.push_back(count_of(cells[i], logged, line));
    }
    if (row.empty() || row.size() != rows_.begin()->second.size()) {
      throw error_in(path_, "has rows of different lengths", counts_hint, line);
    }
  }

  NpyArray array() const {
    if (rows_.empty()) throw error_in(path_, "holds no counts", counts_hint);
    const bool transposed = key_ == "expert";
    const std::int64_t count = std::ssize(rows_), columns = std::ssize(rows_.begin()->second);
    if (transposed && (rows_.begin()->first != 0 || rows_.rbegin()->first != count - 1)) {
      throw error_in(path_, fmt::format("has {} experts, but not 0 to {}", count, count - 1),
                     "a row for each expert, also without tokens");
    }
    std::vector<std::int32_t> values;
    for (const auto& [number, row] : rows_) values.insert(values.end(), row.begin(), row.end());
    if (!transposed) return NpyArray::of(std::move(values), {count, columns}, path_);
    std::vector<std::int32_t> turned;
    for (std::int64_t column = 0; column < columns; ++column) {
      for (std::int64_t row = 0; row < count; ++row) {
        turned.push_back(values[static_cast<std::size_t>(row * columns + column)]);
      }
    }
    return NpyArray::of(std::move(turned), {columns, count}, path_);
  }

 private:
  /// Names above counts; above numbers of columns only the first cell is none, or empty.
  static bool is_header(const std::vector<std::string>& cells, bool logged) {
    return !value_of_text(cells.back()).numeric ||
           (!logged && cells.size() > 1 && !value_of_text(cells.front()).numeric);
  }

  void take_header(const std::vector<std::string>& cells, int line) {
    const std::string first = plain_name(cells.front());
    header_ = true;
    numbered_ = first.empty() || first.starts_with("layer") || first.starts_with("expert");
    key_ = first.starts_with("expert") ? "expert" : "layer";
    if (plain_name(cells.back()).starts_with("count")) {
      throw error_in(path_, "has a row per expert, not per layer", "kind 'table' reads it", line);
    }
  }

  std::int64_t number_of(const std::string& cell, int line) const {
    const auto number = layer_in_name(cell);
    if (number) return *number;
    throw error_in(path_, fmt::format("'{}' does not number a row", cell), counts_hint, line);
  }

  std::int32_t count_of(const std::string& cell, bool logged, int line) const {
    const TableValue value = value_of_text(cell);
    const double count = value.numeric && value.lists == 0 ? value.numbers.front() : -1;
    if (count > static_cast<double>(most_written_count)) refuse_large_count(path_, cell, line);
    if (count < 0 || count != static_cast<std::int32_t>(count)) {
      throw error_in(path_, fmt::format("'{}' is not a count", cell),
                     logged ? "kind 'table' reads logs and metrics" : counts_hint, line);
    }
    return static_cast<std::int32_t>(count);
  }

  const std::string& path_;
  std::map<std::int64_t, std::vector<std::int32_t>> rows_;  // by their numbers
  bool header_ = false, numbered_ = false;
  std::string key_ = "layer";  // what a row is of
};

}  // namespace

void refuse_large_count(const std::string& where, const std::string& count, int line) {
  throw error_in(where,
                 fmt::format("holds a count of {}; at most {} can be", count, most_written_count),
                 fewer_tokens_hint, line);
}

NpyArray count_rows(const std::string& path) {
  CountRows rows(path);
  LineFile lines(path);
  for (std::string line; lines.next(line);) {
    if (line.front() != '#') rows.add(line, lines.line_number());
  }
  return rows.array();
}

}  // namespace moesim
