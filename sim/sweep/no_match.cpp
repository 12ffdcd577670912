// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/no_match.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "sim/sweep/query.h"
#include "sim/sweep/stored_value.h"

namespace moesim {
namespace {

/// Whether a condition names a column, and not only a longer one.
bool names_column(const std::string& where, const std::string& column) {
  const auto part_of_name = [&](std::size_t at) {
    return at < where.size() && (std::isalnum(static_cast<unsigned char>(where[at])) != 0 ||
                                 where[at] == '_' || where[at] == '.');
  };
  for (auto at = where.find(column); at != where.npos; at = where.find(column, at + 1)) {
    if (!part_of_name(at - 1) && !part_of_name(at + column.size())) return true;
  }
  return false;
}

}  // namespace

std::string values_text(const StoredRows& rows, const std::string& name) {
  constexpr std::size_t most = 12;
  const std::size_t column = column_of(rows, name);
  std::vector<std::string> values;
  for (const auto& row : rows.rows) {
    const StoredValue& value = row[column];
    const bool words = value && value->kind == SweepValue::Kind::text;
    const std::string text = !value ? "null" : words ? "'" + text_of(value) + "'" : text_of(value);
    if (std::ranges::find(values, text) != values.end()) continue;
    if (values.size() == most) {
      values.emplace_back("...");
      break;
    }
    values.push_back(text);
  }
  return fmt::format("{}", fmt::join(values, ", "));
}

std::string no_match_text(const SweepReader& reader, const std::string& where,
                          const std::vector<std::string>& axes) {
  std::string text = "no scenario matches";
  const StoredRows all = rows_where(reader, "");
  for (const std::string& axis : axes) {
    if (!names_column(where, axis)) continue;
    text += fmt::format("; {} is {}", axis, values_text(all, axis));
  }
  return text;
}

std::string unfinished_text(const SweepReader& reader) {
  const std::int64_t all = reader.about().scenarios;
  const auto done = reader.query(fmt::format("SELECT count(*){}", final_rows)).rows[0][0]->integer;
  if (done >= all) return "";
  return fmt::format(
      "# {} of {} scenarios are missing: they failed or have not run; the command of the sweep "
      "runs "
      "them\n",
      all - done, all);
}

}  // namespace moesim
