// SPDX-License-Identifier: Apache-2.0
#include "sim/print/formats.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <sstream>

namespace moesim {
namespace {

/// Names come from files, and spreadsheets compute what begins so, unless an apostrophe says that
/// it is text. A number or a dash computes nothing.
std::string as_text_of_a_sheet(const std::string& text) {
  const bool computed =
      text.size() > 1 && std::string("=+-@\t\r").find(text[0]) != std::string::npos;
  const bool number = text.find_first_not_of("+-.0123456789eE%, ") == std::string::npos;
  return computed && !number ? "'" + text : text;
}

std::string csv_field(const std::string& name) {
  const std::string text = as_text_of_a_sheet(name);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// "step [s]": the unit that its numbers share.
std::string name_with_unit(const Table& table, std::size_t column) {
  const TableColumn& c = table.columns[column];
  const std::string& name = c.id.empty() ? c.name : c.id;
  for (const auto& row : table.rows) {
    if (column >= row.size() || *row[column].of_unit == 0) continue;
    return fmt::format("{} [{}]", name, row[column].of_unit);
  }
  return name;
}

std::string csv_table(const Table& table) {
  std::vector<std::string> fields;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    fields.push_back(csv_field(name_with_unit(table, i)));
  }
  std::string text = fmt::format("{}\n", fmt::join(fields, ","));
  for (const auto& row : table.rows) {
    fields.assign(table.columns.size(), "");
    for (std::size_t i = 0; i < row.size(); ++i) {
      fields.at(i) = row[i].value ? fmt::format("{}", *row[i].value) : csv_field(row[i].text);
    }
    text += fmt::format("{}\n", fmt::join(fields, ","));
  }
  return text;
}

std::string markdown_field(const std::string& text) {
  std::string escaped;
  for (const char c : text) escaped += c == '|' ? std::string("\\|") : std::string(1, c);
  return escaped;
}

std::string markdown_line(const std::vector<std::string>& fields) {
  return fmt::format("| {} |\n", fmt::join(fields, " | "));
}

std::string markdown_block(const Table& table, int block) {
  std::vector<std::size_t> columns;
  std::vector<std::string> names, rules;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const TableColumn& c = table.columns[i];
    const bool key = c.kind == TableColumn::Kind::key;
    if (!key && (c.block != block || !c.telling)) continue;
    columns.push_back(i);
    names.push_back(markdown_field(c.name));
    rules.emplace_back(c.kind == TableColumn::Kind::figure ? "---:" : "---");
  }
  std::string text = "\n" + markdown_line(names) + markdown_line(rules);
  for (const auto& row : table.rows) {
    std::vector<std::string> fields;
    for (const std::size_t i : columns) {
      fields.push_back(i < row.size() ? markdown_field(row[i].text) : "");
    }
    text += markdown_line(fields);
  }
  return text + "\n";
}

/// "# note" becomes an entry of a list.
std::string markdown_lines(const std::string& text) {
  std::string list;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t begin = line.find_first_not_of("# ");
    if (begin != std::string::npos) list += "- " + line.substr(begin) + "\n";
  }
  return list;
}

}  // namespace

Rendered as_csv(const Printout& printout) {
  Rendered rendered;
  for (const auto& part : printout.parts()) {
    if (const auto* lines = std::get_if<std::string>(&part)) {
      rendered.beside += *lines;
    } else {
      if (!rendered.text.empty()) rendered.text += "\n";
      rendered.text += csv_table(std::get<Table>(part));
    }
  }
  return rendered;
}

/// A count is shown as it is; a share or a ratio that happens to be whole is not.
nlohmann::ordered_json number_json(const Cell& cell) {
  constexpr double most = 1e15;  // below, a double holds every whole number
  if (std::abs(*cell.value) < most) {
    const auto whole = static_cast<std::int64_t>(*cell.value);
    if (cell.text == std::to_string(whole) && static_cast<double>(whole) == *cell.value) {
      return whole;
    }
  }
  return *cell.value;
}

Rendered as_json(const Printout& printout) {
  Rendered rendered;
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  for (const auto& part : printout.parts()) {
    if (const auto* lines = std::get_if<std::string>(&part)) {
      rendered.beside += *lines;
      continue;
    }
    const Table& table = std::get<Table>(part);
    auto& rows = document[table.name] = nlohmann::ordered_json::array();
    for (const auto& row : table.rows) {
      nlohmann::ordered_json entry;
      for (std::size_t i = 0; i < row.size(); ++i) {
        auto& value = entry[name_with_unit(table, i)];
        if (row[i].value) {
          value = number_json(row[i]);
        } else {
          value = row[i].text;
        }
      }
      rows.push_back(std::move(entry));
    }
  }
  rendered.text = document.dump(1) + "\n";
  return rendered;
}

Rendered as_markdown(const Printout& printout) {
  Rendered rendered;
  for (const auto& part : printout.parts()) {
    if (const auto* lines = std::get_if<std::string>(&part)) {
      rendered.text += markdown_lines(*lines);
      continue;
    }
    const Table& table = std::get<Table>(part);
    int blocks = 1;
    for (const TableColumn& c : table.columns) blocks = std::max(blocks, c.block + 1);
    for (int block = 0; block < blocks; ++block) {
      const auto b = static_cast<std::size_t>(block);
      if (b < table.titles.size()) rendered.text += markdown_lines(table.titles[b]);
      rendered.text += markdown_block(table, block);
    }
  }
  return rendered;
}

}  // namespace moesim
