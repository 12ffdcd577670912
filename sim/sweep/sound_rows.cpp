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

[[noreturn]] void refuse(const std::string& path, std::int64_t id, const std::string& what) {
  throw error_in(path, fmt::format("is damaged: scenario {} has {}", id, what), damaged_hint);
}

}  // namespace

void check_states(sqlite3* db, const std::string& path) {
  Statement others(db, fmt::format("SELECT id FROM scenarios WHERE state IS NULL OR state NOT IN "
                                   "('{}', '{}', '{}') ORDER BY id LIMIT 1",
                                   sweep_ok, sweep_unsuitable, sweep_failed));
  if (!others.step()) return;
  refuse(path, others.integer(0),
         fmt::format("another state than {}, {} or {}", sweep_ok, sweep_unsuitable, sweep_failed));
}

void FigureCheck::see(const SweepRow& row) {
  for (const auto& [name, value] : row.figures) {
    if (axes_.contains(name)) continue;
    auto found = columns_.find(name);
    if (found == columns_.end()) {
      const bool unit = holds_seconds(name) || holds_bytes(name);
      found = columns_.emplace(name, Column{unit, unit}).first;
    }
    Column& column = found->second;
    const bool text = value.kind == SweepValue::Kind::text;
    column.numbers = column.numbers || !text;
    if (row.state != sweep_ok) continue;
    if (text && !column.text_row) column.text_row = row.id;
    if (text) continue;
    const double number = number_of(value);
    if (!std::isfinite(number) || (column.unit && number < rounding)) {
      refuse(path_, row.id, fmt::format("{} as its {}", text_of(value), name));
    }
  }
}

void FigureCheck::finish() const {
  for (const auto& [name, column] : columns_) {
    if (column.numbers && column.text_row) {
      refuse(path_, *column.text_row, fmt::format("text as its {}", name));
    }
  }
}

void check_figures(const StoredRows& rows, const std::vector<std::string>& axes,
                   const std::string& path) {
  FigureCheck check(axes, path);
  const std::size_t state = column_of(rows, "state"), id = column_of(rows, "id");
  for (const auto& stored : rows.rows) {
    SweepRow row{stored[id] ? stored[id]->integer : -1, text_of(stored[state])};
    for (std::size_t c = 0; c < rows.columns.size(); ++c) {
      const bool own = c == id || c == state || rows.columns[c] == "reason";
      if (!own && stored[c]) row.figures.push_back({rows.columns[c], *stored[c]});
    }
    check.see(row);
  }
  check.finish();
}

}  // namespace moesim
