// SPDX-License-Identifier: Apache-2.0
#include "sim/base/delimited.h"

#include <array>

namespace moesim {
namespace {

constexpr std::string_view blanks = " \t\r\n";

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(blanks) - first + 1));
}

/// Calls use(i) for every character outside of quotes and brackets.
template <class Use>
void outside(std::string_view line, const Use& use) {
  bool quoted = false;
  int depth = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '[' || c == '(') ++depth;
    if ((c == ']' || c == ')') && depth > 0) --depth;
    if (depth == 0) use(i);
  }
}

/// Doubled quotes in a quoted cell stand for one.
std::string unquoted(const std::string& cell) {
  if (cell.size() < 2 || cell.front() != '"' || cell.back() != '"') return cell;
  std::string text;
  for (std::size_t i = 1; i + 1 < cell.size(); ++i) {
    if (cell[i] == '"' && cell[i + 1] == '"' && i + 2 < cell.size()) ++i;
    text += cell[i];
  }
  return text;
}

}  // namespace

char separator_of(std::string_view line) {
  constexpr std::string_view known = ",;\t|";
  std::array<int, known.size()> found{};
  outside(line, [&](std::size_t i) {
    if (const auto at = known.find(line[i]); at != std::string_view::npos) ++found[at];
  });
  std::size_t most = 0;
  for (std::size_t i = 1; i < known.size(); ++i) {
    if (found[i] > found[most]) most = i;
  }
  return found[most] > 0 ? known[most] : '\0';
}

std::vector<std::string> cells_of(std::string_view line, char separator) {
  std::vector<std::string> cells;
  std::size_t from = 0;
  outside(line, [&](std::size_t i) {
    if (separator == '\0' || line[i] != separator) return;
    cells.push_back(unquoted(trimmed(line.substr(from, i - from))));
    from = i + 1;
  });
  cells.push_back(unquoted(trimmed(line.substr(from))));
  return cells;
}

}  // namespace moesim
