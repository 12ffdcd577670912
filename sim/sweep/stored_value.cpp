// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/stored_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/units.h"
#include "sim/sweep/statement.h"

namespace moesim {
namespace {

/// Numbers of a damaged file may be larger than any count of bytes.
constexpr double most_bytes = 9e18;

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

bool holds_seconds(const std::string& column) {
  return (column.ends_with("_s") && !column.ends_with("_per_s")) || has(column, "_s.");
}

bool holds_bytes(const std::string& column) {
  return column.ends_with("bytes") || has(column, "_bytes.");
}

double number_of(const StoredValue& value) {
  if (!value || value->kind == SweepValue::Kind::text) return NAN;
  return value->kind == SweepValue::Kind::integer ? static_cast<double>(value->integer)
                                                  : value->real;
}

Cell cell_of(const std::string& column, const StoredValue& value) {
  if (!value) return "";
  if (value->kind == SweepValue::Kind::text) return value->text;
  const double number = number_of(value);
  const bool bytes = holds_bytes(column) && std::abs(number) < most_bytes;
  if (bytes) return {to_string(Bytes(static_cast<std::int64_t>(number))), number};
  if (holds_seconds(column)) return {to_string(Seconds(number)), number};
  if (value->kind == SweepValue::Kind::integer) return value->integer;
  return {fmt::format("{:.4g}", number), number};
}

std::string text_of(const StoredValue& value) {
  if (!value) return "";
  switch (value->kind) {
    case SweepValue::Kind::integer:
      return std::to_string(value->integer);
    case SweepValue::Kind::real:
      return fmt::format("{}", value->real);
    case SweepValue::Kind::text:
      break;
  }
  return value->text;
}

void collapse_equal(StoredRows& rows, const std::vector<std::string>& axes) {
  const auto scenario = std::ranges::find(rows.columns, "scenario") - rows.columns.begin();
  if (scenario == std::ssize(rows.columns)) return;
  std::vector<bool> of_axis, compared;
  for (const std::string& column : rows.columns) {
    of_axis.push_back(std::ranges::find(axes, column) != axes.end());
    compared.push_back(column == "scenario" || column == "speedup");
  }
  std::map<std::string, std::size_t> places;
  std::vector<std::vector<StoredValue>> kept;
  for (auto& row : rows.rows) {
    std::string key;
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (compared[c]) key += text_of(row[c]) + '\n';
    }
    const bool known = row[static_cast<std::size_t>(scenario)].has_value();
    const auto [place, is_new] = places.try_emplace(key, kept.size());
    if (!known || is_new) {
      if (!known && is_new) places.erase(place);
      kept.push_back(std::move(row));
      continue;
    }
    auto& first = kept[place->second];
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (of_axis[c] && text_of(first[c]) != text_of(row[c])) first[c] = text_value("any");
    }
  }
  rows.rows = std::move(kept);
}

std::string with_quoted_columns(const std::string& sql, const std::vector<std::string>& columns) {
  const auto in_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == ':';
  };
  std::string result;
  for (std::size_t i = 0; i < sql.size();) {
    if (sql[i] == '\'' || sql[i] == '"') {
      const auto end = std::min(sql.find(sql[i], i + 1), sql.size() - 1);
      result += sql.substr(i, end + 1 - i);
      i = end + 1;
    } else if (in_name(sql[i])) {
      std::size_t end = i;
      while (end < sql.size() && in_name(sql[end])) ++end;
      const std::string word = sql.substr(i, end - i);
      result += std::ranges::find(columns, word) != columns.end() ? sql_name(word) : word;
      i = end;
    } else {
      result += sql[i++];
    }
  }
  return result;
}

}  // namespace moesim
