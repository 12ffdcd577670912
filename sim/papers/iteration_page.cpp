// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>

#include "sim/base/figures.h"
#include "sim/papers/iteration_report.h"
#include "sim/papers/papers_report.h"

namespace moesim {
namespace {

constexpr double near_enough_row = 0.15;  // what the page only counts

std::string iteration_summary_row(const JudgedTable& t) {
  const IterationSummary of = iteration_summary(t);
  const bool timed = of.timed && !of.errors.errors.empty();
  const std::string rows = of.predicted == of.rows ? std::to_string(of.rows)
                                                   : fmt::format("{} of {}", of.predicted, of.rows);
  return fmt::format("| [{0}](#{0}) | {1} | {2} | {3} | {4} | {5} | {6} |\n", t.table.name, rows,
                     timed ? percent(of.errors.median()) : "not judged",
                     timed ? percent(of.errors.percentile_90()) : "-",
                     of.timed ? order_words(of.order, "-") : "-", gain_words(of), memory_words(of));
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
  if (!t.predicted[f].there()) {
    return fmt::format("| {} | - | - | - | {} |\n", figure.name, why_not(t, f));
  }
  const auto error = t.error(f);
  const std::string peak = peak_words(t, f);
  return fmt::format("| {} | {:.2f} | {} | {} | {}{} |\n", figure.name, t.predicted[f].value,
                     figure.published ? fmt::format("{:.2f}", *figure.published) : "-",
                     error ? signed_percent(*error) : "-", parts_words(t, f),
                     peak.empty() ? "" : "; " + peak);
}

std::string timed_rows(const JudgedTable& t) {
  std::string rows;
  int near = 0;
  for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
    if (needs_row(t, f)) {
      rows += page_row(t, f);
    } else {
      ++near;
    }
  }
  std::string text;
  if (!rows.empty()) {
    text += "| row | simulated, s | published, s | error | most of it |\n|---|---|---|---|---|\n" +
            rows + "\n";
  }
  if (near == 0) return text;
  return text + fmt::format("Within {:.0f} %: {} of {} rows.\n\n", 100 * near_enough_row, near,
                            t.table.figures.size());
}

std::string memory_rows(const JudgedTable& t) {
  std::string text;
  for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
    text += fmt::format("- {}: {}\n", t.table.figures[f].name,
                        t.predicted[f].there() ? peak_words(t, f) : why_not(t, f));
  }
  return text + "\n";
}

std::string iteration_section(const JudgedTable& t) {
  std::string text =
      fmt::format("### {}\n\n{}. Source: {}.\n\n", t.table.name, t.table.title, t.table.source);
  for (const std::string& line : t.table.assumed) text += "- " + line + "\n";
  if (!t.table.assumed.empty()) text += "\n";
  text += iteration_summary(t).timed ? timed_rows(t) : memory_rows(t);
  for (const std::string& line : t.table.misses) text += "- " + line + "\n";
  return t.table.misses.empty() ? text : text + "\n";
}

}  // namespace

std::string iterations_page(const std::vector<JudgedTable>& tables) {
  std::string text = total_words(total_of_iterations(tables));
  text += text.empty() ? "" : ".\n\n";
  text +=
      "| table | rows | median error | 90 % within | pairs in order | overlap gains, simulated / "
      "published | peak memory, at most |\n|---|---|---|---|---|---|---|\n";
  for (const JudgedTable& t : tables) {
    if (t.table.iterations) text += iteration_summary_row(t);
  }
  text += "\n";
  for (const JudgedTable& t : tables) {
    if (t.table.iterations) text += iteration_section(t);
  }
  return text;
}

}  // namespace moesim
