// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/sound_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/sweep/query.h"
#include "sim/sweep/statement.h"
#include "sim/sweep/stored_value.h"

namespace moesim {
namespace {

constexpr double rounding = -1e-9;  // of a difference of two times

[[noreturn]] void refuse(const std::string& path, const StoredValue& id, const std::string& what) {
  throw error_in(path, fmt::format("is damaged: scenario {} has {}", text_of(id), what),
                 "copy it again, or run the sweep again");
}

bool is_text(const StoredValue& value) { return value && value->kind == SweepValue::Kind::text; }

/// Whether a column holds numbers: by the unit in its name, or because other rows have them.
bool holds_numbers(const StoredRows& rows, std::size_t column) {
  const std::string& name = rows.columns[column];
  return holds_seconds(name) || holds_bytes(name) ||
         std::ranges::any_of(rows.rows,
                             [&](const auto& row) { return !std::isnan(number_of(row[column])); });
}

}  // namespace

void check_states(sqlite3* db, const std::string& path) {
  Statement others(db, fmt::format("SELECT id FROM scenarios WHERE state IS NULL OR state NOT IN "
                                   "('{}', '{}', '{}') ORDER BY id LIMIT 1",
                                   sweep_ok, sweep_unsuitable, sweep_failed));
  if (!others.step()) return;
  refuse(path, others.value(0),
         fmt::format("another state than {}, {} or {}", sweep_ok, sweep_unsuitable, sweep_failed));
}

void check_figures(const StoredRows& rows, const std::vector<std::string>& axes,
                   const std::string& path) {
  const std::size_t state = column_of(rows, "state"), id = column_of(rows, "id");
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    const std::string& name = rows.columns[c];
    if (std::ranges::find(axes, name) != axes.end() || !holds_numbers(rows, c)) continue;
    const bool signed_one = !holds_seconds(name) && !holds_bytes(name);
    for (const auto& row : rows.rows) {
      if (text_of(row[state]) != sweep_ok || !row[c]) continue;
      if (is_text(row[c])) refuse(path, row[id], fmt::format("text as its {}", name));
      const double number = number_of(row[c]);
      if (!std::isfinite(number) || (!signed_one && number < rounding)) {
        refuse(path, row[id], fmt::format("{} as its {}", text_of(row[c]), name));
      }
    }
  }
}

}  // namespace moesim
