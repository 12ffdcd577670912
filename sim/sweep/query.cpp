// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/query.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>
#include <set>
#include <utility>

#include "sim/base/error.h"
#include "sim/sweep/no_match.h"
#include "sim/sweep/pivot.h"
#include "sim/sweep/sound_rows.h"
#include "sim/sweep/stored_value.h"
#include "sim/sweep/winners.h"

namespace moesim {
namespace {

/// Columns that are shown without being asked for, next to the axes and the figure in question.
const std::set<std::string> shown_figures = {"bound_by",
                                             "total.exposed_communication_s",
                                             "peak_memory_bytes",
                                             "tokens_per_s_per_gpu",
                                             "peak_memory.bytes",
                                             "speedup",
                                             "usd_per_million_tokens",
                                             "joules_per_token"};

/// `more` continues the hint.
[[noreturn]] void throw_unknown(const std::string& name, const std::vector<std::string>& columns,
                                const std::string& more = "") {
  std::string close = nearest(name, columns);
  const auto part = [&](const std::string& column) {
    return column.starts_with(name) || column.ends_with("." + name);
  };
  if (const auto longer = std::ranges::find_if(columns, part); longer != columns.end()) {
    close = *longer;
  }
  throw Error(fmt::format("the sweep has no column '{}'", name),
              close.empty() ? "--format csv shows all columns" + more
                            : fmt::format("did you mean '{}'?", close));
}

void keep(StoredRows& rows, const std::vector<std::size_t>& places) {
  std::vector<std::vector<StoredValue>> kept;
  for (const std::size_t place : places) kept.push_back(rows.rows[place]);
  rows.rows = std::move(kept);
}

/// The places of the rows that have the figure, the best first; ties by id.
std::vector<std::size_t> best_first(const StoredRows& rows, const Aim& aim) {
  const std::size_t column = column_of(rows, aim.figure);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    if (!std::isnan(number_of(rows.rows[i][column]))) places.push_back(i);
  }
  std::ranges::stable_sort(
      places, {}, [&](std::size_t i) { return aim.sign * number_of(rows.rows[i][column]); });
  return places;
}

/// Seconds per token; of sweeps that do not hold tokens, seconds.
double time_per_token(const StoredRows& rows, const std::vector<StoredValue>& row) {
  const double time = number_of(row[column_of(rows, time_column(rows))]);
  const auto tokens = std::ranges::find(rows.columns, "tokens");
  if (tokens == rows.columns.end()) return time;
  const double count = number_of(row[static_cast<std::size_t>(tokens - rows.columns.begin())]);
  return count > 0 ? time / count : time;
}

/// That of the row with the baseline's value of its axis, and all others alike, over its own.
void add_speedup(StoredRows& rows, const std::string& baseline,
                 const std::vector<std::string>& axes) {
  const auto equals = baseline.find('=');
  if (equals == std::string::npos) {
    throw Error(fmt::format("--baseline: '{}' names no value", baseline),
                "for example --baseline policy=megatron");
  }
  const std::string axis = baseline.substr(0, equals), value = baseline.substr(equals + 1);
  const std::size_t of_axis = column_of(rows, axis);
  const auto others = [&](const std::vector<StoredValue>& row) {
    std::vector<std::string> key;
    for (const std::string& each : axes) {
      if (each != axis) key.push_back(text_of(row[column_of(rows, each)]));
    }
    return key;
  };
  std::map<std::vector<std::string>, double> times;
  for (const auto& row : rows.rows) {
    if (text_of(row[of_axis]) == value) times[others(row)] = time_per_token(rows, row);
  }
  if (times.empty()) {
    throw Error(fmt::format("--baseline: no scenario has {} = {}", axis, value),
                fmt::format("{} is {}", axis, values_text(rows, axis)));
  }
  rows.columns.emplace_back("speedup");
  for (auto& row : rows.rows) {
    const auto found = times.find(others(row));
    StoredValue speedup;
    if (found != times.end()) speedup = real_value(found->second / time_per_token(rows, row));
    row.push_back(speedup);
  }
}

const std::set<std::string> prose_columns = {"reason", "scenario", "notes", cannot_run_column};

Table rows_table(const StoredRows& rows, const std::vector<std::string>& axes,
                 const std::set<std::string>& shown) {
  std::vector<TableColumn> columns;
  std::vector<std::size_t> order;
  const auto add = [&](std::size_t c, TableColumn::Kind kind, bool telling) {
    order.push_back(c);
    columns.push_back({rows.columns[c], kind, 0, telling});
  };
  const auto is_axis = [&](const std::string& name) {
    return std::ranges::find(axes, name) != axes.end();
  };
  for (const std::string& axis : axes) add(column_of(rows, axis), TableColumn::Kind::key, true);
  const auto lossy = std::ranges::find(rows.columns, lossy_column);
  if (lossy != rows.columns.end()) {
    const auto c = static_cast<std::size_t>(lossy - rows.columns.begin());
    const bool any =
        std::ranges::any_of(rows.rows, [c](const auto& row) { return !text_of(row[c]).empty(); });
    add(c, TableColumn::Kind::words, any);
  }
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    if (is_axis(rows.columns[c]) || rows.columns[c] == lossy_column) continue;
    const bool words = prose_columns.contains(rows.columns[c]);
    add(c, words ? TableColumn::Kind::prose : TableColumn::Kind::figure,
        shown.contains(rows.columns[c]));
  }
  Table table("scenarios", columns);
  for (const auto& row : rows.rows) {
    auto& cells = table.rows.emplace_back();
    for (const std::size_t c : order) cells.push_back(cell_of(rows.columns[c], row[c]));
  }
  return table;
}

Table group_table(const StoredRows& rows, const std::vector<std::string>& by, const Aim& aim) {
  const std::size_t figure = column_of(rows, aim.figure);
  std::vector<std::vector<StoredValue>> keys;  // in the order of their first rows
  std::map<std::vector<std::string>, std::size_t> places;
  std::vector<std::vector<double>> numbers;
  for (const auto& row : rows.rows) {
    std::vector<StoredValue> key;
    std::vector<std::string> texts;
    for (const std::string& column : by) {
      key.push_back(row[column_of(rows, column)]);
      texts.push_back(text_of(key.back()));
    }
    const auto [place, is_new] = places.try_emplace(texts, keys.size());
    if (is_new) {
      keys.push_back(key);
      numbers.emplace_back();
    }
    const double number = number_of(row[figure]);
    if (!std::isnan(number)) numbers[place->second].push_back(number);
  }
  std::vector<std::string> names = by;
  for (const char* name : {"scenarios", "least", "mean", "largest"}) names.emplace_back(name);
  Table table("groups", by.size(), names);
  table.titles = {aim.figure};
  for (std::size_t g = 0; g < keys.size(); ++g) {
    auto& cells = table.rows.emplace_back();
    for (std::size_t k = 0; k < by.size(); ++k) cells.push_back(cell_of(by[k], keys[g][k]));
    cells.push_back(std::ssize(numbers[g]));
    if (numbers[g].empty()) {
      for (int i = 0; i < 3; ++i) cells.emplace_back("");
      continue;
    }
    double sum = 0;
    for (const double number : numbers[g]) sum += number;
    const double mean = sum / static_cast<double>(numbers[g].size());
    for (const double number : {std::ranges::min(numbers[g]), mean, std::ranges::max(numbers[g])}) {
      cells.push_back(cell_of(aim.figure, real_value(number)));
    }
  }
  return table;
}

/// Of shown rows, those that were simulated although memory does not hold them.
std::string too_large_text(const StoredRows& rows) {
  const std::string peak = "peak_memory.bytes", there = "peak_memory.gpu_memory_bytes";
  if (std::ranges::count(rows.columns, peak) + std::ranges::count(rows.columns, there) < 2)
    return "";
  const std::size_t needed = column_of(rows, peak), has = column_of(rows, there);
  const auto count = std::ranges::count_if(
      rows.rows, [&](const auto& row) { return number_of(row[needed]) > number_of(row[has]); });
  if (count == 0) return "";
  return fmt::format("# memory does not hold {} of them: --where '{} <= {}' leaves out such\n",
                     count, peak, there);
}

Printout not_run(const SweepReader& reader, const SweepQuery& query,
                 const std::vector<std::string>& axes) {
  const StoredRows rows = rows_where(reader, query.where, "<> 'ok'");
  return Printout().add(rows_table(rows, axes, {"state", "reason"}));
}

}  // namespace

StoredRows rows_where(const SweepReader& reader, const std::string& where,
                      const std::string& state) {
  std::string sql = "SELECT * FROM scenarios WHERE state " + state;
  if (!where.empty()) {
    sql += fmt::format(" AND ({}\n)", with_quoted_columns(where, reader.columns()));
  }
  try {
    StoredRows rows = reader.query(sql + " ORDER BY id");
    check_figures(rows, reader.about().axes, reader.path());
    return rows;
  } catch (const Error& e) {
    const std::string what = e.diagnostics().front().message, missing = "no such column: ";
    const auto at = what.find(missing);
    if (at == std::string::npos) throw;
    const std::string name = what.substr(at + missing.size());
    throw_unknown(name, reader.columns(), fmt::format("; a text is in quotes, '{}'", name));
  }
}

std::size_t column_of(const StoredRows& rows, const std::string& name) {
  const auto found = std::ranges::find(rows.columns, name);
  if (found != rows.columns.end()) return static_cast<std::size_t>(found - rows.columns.begin());
  throw_unknown(name, rows.columns);
}

std::string time_column(const StoredRows& rows) {
  const bool steps = std::ranges::find(rows.columns, "step_s") != rows.columns.end();
  const bool engines = std::ranges::find(rows.columns, "tpot.p50_s") != rows.columns.end();
  return engines ? "tpot.p50_s" : steps ? "step_s" : "iteration_s";
}

std::vector<std::size_t> pareto_front(const StoredRows& rows,
                                      const std::vector<std::string>& figures) {
  using PlacedPoint = std::pair<std::vector<double>, std::size_t>;  // and its place
  std::vector<std::pair<std::size_t, double>> aims;                 // column, sign
  for (const std::string& figure : figures) {
    const Aim aim = aim_of(figure);
    aims.emplace_back(column_of(rows, aim.figure), aim.sign);
  }
  std::vector<PlacedPoint> points;
  for (std::size_t i = 0; i < rows.rows.size(); ++i) {
    std::vector<double> point;
    for (const auto& [column, sign] : aims) point.push_back(sign * number_of(rows.rows[i][column]));
    if (std::ranges::any_of(point, [](double x) { return std::isnan(x); })) continue;
    points.emplace_back(std::move(point), i);
  }
  // What beats a point comes before it in this order, and so does one of the front that beats it.
  std::ranges::sort(points);
  std::vector<PlacedPoint> front;
  for (PlacedPoint& point : points) {
    const auto beats = [&point](const PlacedPoint& other) {
      return other.first != point.first &&
             std::ranges::equal(other.first, point.first, std::less_equal<>());
    };
    if (std::ranges::none_of(std::views::reverse(front), beats)) front.push_back(std::move(point));
  }
  std::vector<std::size_t> places;
  for (const PlacedPoint& point : front) places.push_back(point.second);
  std::ranges::sort(places);
  return places;
}

Printout answer(const SweepReader& reader, const SweepQuery& query) {
  const std::vector<std::string> axes = reader.about().axes;
  if (query.not_run) return not_run(reader, query, axes);
  reader.require_figures();
  StoredRows rows = rows_where(reader, query.where);
  std::string left_out;
  if (rows.rows.empty()) left_out = "# " + no_match_text(reader, query.where, axes) + "\n";
  left_out += unfinished_text(reader);
  if (!query.baseline.empty() && !rows.rows.empty()) add_speedup(rows, query.baseline, axes);
  const Aim aim = aim_of(query.by.empty() ? time_column(rows) : query.by);
  if (query.pivot.empty() && query.group.empty()) collapse_equal(rows, axes);
  column_of(rows, aim.figure);  // a misspelt one is reported also if it decides nothing
  if (query.top > 0 || !query.pareto.empty() || !query.pivot.empty()) {
    left_out += keep_winners(rows, query.lossy);
  }
  if (!query.pareto.empty()) keep(rows, pareto_front(rows, query.pareto));
  if (query.top > 0) {
    std::vector<std::size_t> places = best_first(rows, aim);
    places.resize(std::min(places.size(), static_cast<std::size_t>(query.top)));
    keep(rows, places);
  }
  Printout printout;
  if (!query.pivot.empty()) return printout.add(pivot_table(rows, query.pivot, aim)).add(left_out);
  if (!query.group.empty()) return printout.add(group_table(rows, query.group, aim)).add(left_out);
  std::set<std::string> shown = shown_figures;
  shown.insert(aim.figure);
  shown.insert(time_column(rows));
  for (const std::string& figure : query.pareto) shown.insert(aim_of(figure).figure);
  return printout.add(rows_table(rows, axes, shown)).add(too_large_text(rows)).add(left_out);
}

}  // namespace moesim
