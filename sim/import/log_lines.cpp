// SPDX-License-Identifier: Apache-2.0
#include "sim/import/log_lines.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "sim/base/error.h"
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

/// The name in a heading of llama.cpp's eval-callback, "ggml_debug: ffn_moe_topk-3 = (i32) ...".
std::optional<std::string_view> tensor_named_by(std::string_view line) {
  const std::size_t type = line.find(" = (");
  if (type == std::string_view::npos || line.find('{', type) == std::string_view::npos) return {};
  const std::string_view of = line.substr(type + 4, line.find(')', type) - type - 4);
  const auto plain = [](char c) { return is_word(c) || is_digit(c); };  // "i32", "q4_K"
  if (of.empty() || !std::ranges::all_of(of, plain)) return {};
  const std::string_view before = line.substr(0, type);
  const std::size_t blank = before.find_last_of(" \t");
  return blank == std::string_view::npos ? before : before.substr(blank + 1);
}

}  // namespace

/// Whether a line is a heading of a tensor, or of one that holds no chosen experts. A print that
/// leaves values out is refused.
bool LogLines::passes_tensor(const std::string& line, const TableRow& row) {
  if (const auto name = tensor_named_by(line)) {
    in_tensor_ = true;
    of_ids_ = name->starts_with("ffn_moe_topk");
    const std::size_t dash = name->find_last_of('-');
    const TableValue layer =
        value_of_text(std::string(dash == std::string_view::npos ? "" : name->substr(dash + 1)));
    if (of_ids_ && layer.numeric) layer_ = static_cast<std::int64_t>(layer.numbers.front());
    return true;
  }
  if (!in_tensor_ || !of_ids_) return in_tensor_;
  if (line.find("...") != std::string::npos) {
    throw error_in(row.file, "leaves values of ffn_moe_topk out ('...')",
                   "print whole tensors: eval-callback shows 3 at each end, so prompts of at most "
                   "6 tokens and top-6 are whole",
                   row.line);
  }
  return line.find('[') == std::string::npos;
}

void LogLines::read_line(const std::string& line, TableRow row) {
  if (passes_tensor(line, row)) return;
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
