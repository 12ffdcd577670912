// SPDX-License-Identifier: Apache-2.0
#include "sim/print/render.h"

#include <fmt/color.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "sim/base/error.h"
#include "sim/print/formats.h"
#include "sim/print/layout.h"

namespace moesim {
namespace {

std::size_t column_named(const Table& table, const std::string& flag) {
  const auto is = [&](const TableColumn& c) { return column_flag(c) == column_flag(flag); };
  return static_cast<std::size_t>(std::ranges::find_if(table.columns, is) - table.columns.begin());
}

bool has_column(const Table& table, const std::string& flag) {
  return column_named(table, flag) < table.columns.size();
}

void require_column(const Printout& printout, const std::string& flag, const std::string& word) {
  std::vector<std::string> known;
  for (const auto& part : printout.parts()) {
    const Table* table = std::get_if<Table>(&part);
    if (table == nullptr) continue;
    if (has_column(*table, word)) return;
    for (const TableColumn& c : table->columns) {
      const std::string name = column_flag(c);
      if (std::ranges::find(known, name) == known.end()) known.push_back(name);
    }
  }
  throw Error(fmt::format("{}: there is no column '{}'", flag, word), did_you_mean(word, known));
}

/// Numbers by size, words by their letters; what has no number last.
void sort_rows(Table& table, const std::string& sort) {
  const bool down = sort.starts_with('-');
  const std::size_t by = column_named(table, sort.substr(down ? 1 : 0));
  if (by == table.columns.size()) return;
  const auto before = [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
    const Cell& x = a.at(by);
    const Cell& y = b.at(by);
    if (x.value && y.value) return down ? *x.value > *y.value : *x.value < *y.value;
    if (x.value || y.value) return x.value.has_value();
    return down ? x.text > y.text : x.text < y.text;
  };
  std::ranges::stable_sort(table.rows, before);
}

/// The requested ones that it has, in that order and in one block; all if it has none of them.
Table chosen_columns(const Table& table, const std::vector<std::string>& wanted) {
  std::vector<std::size_t> picks;
  for (const std::string& flag : wanted) {
    const std::size_t i = column_named(table, flag);
    if (i < table.columns.size() && std::ranges::find(picks, i) == picks.end()) picks.push_back(i);
  }
  if (picks.empty()) return table;
  Table chosen(table.name, {});
  for (const std::size_t i : picks) {
    chosen.columns.push_back(table.columns[i]);
    chosen.columns.back().block = 0;
    chosen.columns.back().telling = true;
  }
  for (const auto& row : table.rows) {
    auto& cells = chosen.rows.emplace_back();
    for (const std::size_t i : picks) cells.push_back(i < row.size() ? row[i] : Cell());
  }
  return chosen;
}

Printout prepared(const Printout& printout, const PrintStyle& style) {
  require_columns(printout, style);
  Printout ready;
  for (const auto& part : printout.parts()) {
    if (const auto* line = std::get_if<std::string>(&part)) {
      ready.add(*line);
      continue;
    }
    Table table = std::get<Table>(part);
    if (!style.sort.empty()) sort_rows(table, style.sort);
    ready.add(style.columns.empty() ? std::move(table) : chosen_columns(table, style.columns));
  }
  return ready;
}

std::string dimmed(const std::string& lines) {
  std::string text;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size());
    const std::string line = lines.substr(begin, end - begin);
    text += line.starts_with('#') ? fmt::format(fmt::emphasis::faint, "{}", line) : line;
    text += "\n";
    begin = end + 1;
  }
  return text;
}

std::string hint_of(const std::vector<std::string>& left_out) {
  std::vector<std::string> flags;
  for (const std::string& name : left_out) {
    if (std::ranges::find(flags, name) == flags.end()) flags.push_back(name);
  }
  return fmt::format("# more columns: {} (--wide shows all, --columns a,b these)\n",
                     fmt::join(flags, ", "));
}

std::string as_text(const Printout& printout, const PrintStyle& style) {
  std::string text;
  std::vector<std::string> left_out;
  for (const auto& part : printout.parts()) {
    if (const auto* lines = std::get_if<std::string>(&part)) {
      const std::string fitted = wrapped_lines(*lines, style.width);
      text += style.color ? dimmed(fitted) : fitted;
    } else {
      text += laid_out(std::get<Table>(part), {style.width, style.color}, left_out);
    }
  }
  if (left_out.empty() || !style.hint) return text;
  const std::string hint = wrapped_lines(hint_of(left_out), style.width);
  return text + (style.color ? dimmed(hint) : hint);
}

}  // namespace

void require_columns(const Printout& printout, const PrintStyle& style) {
  for (const std::string& word : style.columns) require_column(printout, "--columns", word);
  if (!style.sort.empty()) {
    require_column(printout, "--sort", style.sort.substr(style.sort.starts_with('-') ? 1 : 0));
  }
}

Rendered render(const Printout& printout, const PrintStyle& style) {
  const Printout ready = prepared(printout, style);
  switch (style.format) {
    case PrintFormat::csv:
      return as_csv(ready);
    case PrintFormat::json:
      return as_json(ready);
    case PrintFormat::markdown:
      return as_markdown(ready);
    case PrintFormat::table:
      break;
  }
  return {as_text(ready, style), ""};
}

std::string column_flag(const std::string& name) {
  std::string flag;
  for (const char c : name) {
    const auto letter = static_cast<unsigned char>(c);
    if (std::isalnum(letter) != 0 || c == '#') {
      flag += static_cast<char>(std::tolower(letter));
    } else if (!flag.empty() && flag.back() != '-') {
      flag += '-';
    }
  }
  while (flag.ends_with('-')) flag.pop_back();
  return flag;
}

std::string column_flag(const TableColumn& column) {
  return column_flag(column.id.empty() ? column.name : column.id);
}

}  // namespace moesim
