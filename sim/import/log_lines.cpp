// SPDX-License-Identifier: Apache-2.0
#include "sim/import/log_lines.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "sim/import/table_values.h"

namespace moesim {
namespace {

/// A value of a line and the words before it, the last first: {"ids", "expertids"}.
struct NamedValue {
  std::vector<std::string> names;
  std::string text;
};

bool is_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::vector<std::string> names_of_words(const std::vector<std::string>& words) {
  std::vector<std::string> names;
  std::string joined;
  for (auto word = words.rbegin(); word != words.rend() && names.size() < 3; ++word) {
    joined = *word + joined;
    names.push_back(joined);
  }
  return names;
}

/// Numbers and lists of a line, each with the words since the value before it.
std::vector<NamedValue> values_of(std::string_view line) {
  std::vector<NamedValue> values;
  std::vector<std::string> words;
  for (std::size_t at = 0; at < line.size();) {
    std::size_t end = at + 1;
    if (is_word(line[at])) {
      while (end < line.size() && (is_word(line[end]) || is_digit(line[end]))) ++end;
      const std::size_t digits = line.find_last_not_of("0123456789", end - 1) + 1;
      words.emplace_back(line.substr(at, digits - at));
      end = digits;  // "expert_3" is a word and a number
    } else if (is_digit(line[at])) {
      while (end < line.size() && (is_digit(line[end]) || line[end] == '.')) ++end;
      values.push_back({names_of_words(words), std::string(line.substr(at, end - at))});
      words.clear();
    } else if (line[at] == '[' && line.find(']', at) != std::string_view::npos) {
      end = line.find(']', at) + 1;
      values.push_back({names_of_words(words), std::string(line.substr(at, end - at))});
      words.clear();
    }
    at = end;
  }
  return values;
}

bool is_list(const NamedValue& value) { return value.text.front() == '['; }

}  // namespace

void LogLines::read_line(const std::string& line, TableRow row) {
  const auto values = values_of(line);
  bool chosen = false;
  for (const NamedValue& named : values) {
    const TableValue value = value_of_text(named.text);
    if (!value.numeric) continue;
    std::optional<TableRole> role;
    for (const std::string& name : named.names) {
      const auto found = fields_.role_of(name);
      if (found && !role) role = found;
    }
    if (named.names.empty() && is_list(named) && !chosen) role = TableRole::experts;
    if (!role) continue;
    if (*role == TableRole::experts) {
      const bool ids = std::ranges::all_of(value.numbers, [](double n) {
        return n >= 0 && n < 1 << 20 && n == static_cast<double>(static_cast<int>(n));
      });
      if (!ids || chosen) continue;
      chosen = true;
    }
    fill(row, *role, value, "", false);
  }
  if (row.layer) layer_ = row.layer;
  if (row.step) step_ = row.step;
  if (!row.request.empty()) request_ = row.request;
  if (!chosen) return;
  if (!row.layer) row.layer = layer_;
  if (!row.step) row.step = step_;
  if (row.request.empty()) row.request = request_;
  ++rows_;
  use_(row);
}

void LogLines::read(LineFile& lines, const TableReader::Progress& progress) {
  std::string line;
  while (lines.next(line)) {
    read_line(line, {lines.path(), lines.line_number()});
    progress(lines.done());
  }
}

}  // namespace moesim
