// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "sim/base/figures.h"
#include "sim/evidence/iteration_report.h"
#include "sim/evidence/papers_report.h"

namespace moesim {
namespace {

constexpr double near_enough_row = 0.15;  // The page lists what is farther off.

std::string iteration_summary_row(const JudgedTable& t) {
  const IterationSummary of = iteration_summary(t);
  const bool timed = of.timed && !of.errors.errors.empty();
  const std::string rows = of.predicted == of.rows ? std::to_string(of.rows)
                                                   : fmt::format("{} of {}", of.predicted, of.rows);
  const std::string line = fmt::format("| {} | {} | {} | {} | {} |", t.table.name, rows,
                                       timed ? percent(of.errors.median()) : "not judged",
                                       timed ? percent(of.errors.percentile_90()) : "-",
                                       of.timed ? order_words(of.order, "-") : "-");
  if (t.table.serving) return line + "\n";
  return line + fmt::format(" {} | {} |\n", gain_words(of), memory_words(of));
}

std::string why_not(const JudgedTable& t, std::size_t f) {
  return "not predicted: " + t.predicted[f].why;
}

/// Whether more than the error is of interest.
bool needs_row(const JudgedTable& t, std::size_t f) {
  const auto error = t.error(f);
  return !error || std::abs(*error) > near_enough_row ||
         !t.table.figures[f].iteration->turns.empty();
}

std::string page_row(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  const std::string names = fmt::format("| {} | {} |", t.table.name, figure.name);
  if (!t.predicted[f].there()) {
    return fmt::format("{} - | - | - | {} |\n", names, why_not(t, f));
  }
  const auto error = t.error(f);
  const std::string peak = peak_words(t, f);
  return fmt::format("{} {:.2f} | {} | {} | {}{} |\n", names, t.predicted[f].value,
                     figure.published ? fmt::format("{:.2f}", *figure.published) : "-",
                     error ? signed_percent(*error) : "-", parts_words(t, f),
                     peak.empty() ? "" : "; " + peak);
}

/// Of tables whose times count: what is far off, or more than its time is of interest.
std::string timed_rows(const std::vector<JudgedTable>& tables) {
  std::string rows;
  for (const JudgedTable& t : tables) {
    if (!iteration_summary(t).timed || t.table.serving) continue;
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      if (needs_row(t, f)) rows += page_row(t, f);
    }
  }
  if (rows.empty()) return "";
  return fmt::format(
      "Rows that are off by more than {:.0f} %, or have more than a time:\n\n"
      "| table | row | simulated, s | published, s | error | most of it "
      "|\n|---|---|---|---|---|---|\n"
      "{}\n",
      100 * near_enough_row, rows);
}

/// Whether a peak is far off or the verdict wrong.
bool memory_is_off(const JudgedTable& t, std::size_t f) {
  const auto error = memory_error(t, f);
  const auto& fits = t.table.figures[f].iteration->fits;
  const auto& simulated = t.predicted[f].iteration;
  return !t.predicted[f].there() || (error && std::abs(*error) > near_enough_row) ||
         (fits && simulated && *fits != simulated->fits());
}

/// The same of tables whose memory counts only.
std::string memory_rows(const std::vector<JudgedTable>& tables) {
  std::string rows;
  for (const JudgedTable& t : tables) {
    if (iteration_summary(t).timed) continue;
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      if (!memory_is_off(t, f)) continue;
      rows += fmt::format("| {} | {} | {} |\n", t.table.name, t.table.figures[f].name,
                          t.predicted[f].there() ? peak_words(t, f) : why_not(t, f));
    }
  }
  return rows.empty() ? "" : "| table | row | peak memory |\n|---|---|---|\n" + rows + "\n";
}

/// What tables assume, and why they are off; sources are in their files.
std::string table_items(const std::vector<JudgedTable>& tables) {
  std::string text;
  for (const JudgedTable& t : tables) {
    for (const auto& lines : {t.table.assumed, t.table.misses}) {
      for (const std::string& line : lines) text += fmt::format("- {}: {}\n", t.table.name, line);
    }
  }
  return text;
}

/// A line for each table; passes of serving have neither gains nor peaks, and their rows are in the
/// text and the JSON document only.
std::string summary_of(const std::vector<JudgedTable>& tables, bool serving) {
  std::string rows;
  for (const JudgedTable& t : tables) {
    if (t.table.serving == serving) rows += iteration_summary_row(t);
  }
  if (rows.empty()) return "";
  if (serving) {
    return "| table | rows | median error | 90 % within | pairs in order "
           "|\n|---|---|---|---|---|\n" +
           rows + "\n";
  }
  return "| table | rows | median error | 90 % within | pairs in order | gains, simulated / "
         "published | peak memory, at most |\n|---|---|---|---|---|---|---|\n" +
         rows + "\n";
}

}  // namespace

std::string iterations_page(const std::vector<JudgedTable>& all) {
  std::vector<JudgedTable> tables = all;
  std::erase_if(tables, [](const JudgedTable& t) { return !t.table.iterations; });
  std::string text;
  for (const bool serving : {false, true}) {
    const std::string total =
        total_words(total_of_iterations(tables, serving), rows_words(serving));
    text += total.empty() ? "" : total + ".\n\n";
  }
  text += summary_of(tables, false) + summary_of(tables, true);
  return text + timed_rows(tables) + memory_rows(tables) + table_items(tables);
}

}  // namespace moesim
