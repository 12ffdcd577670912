// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/evidence/headline_table.h"
#include "sim/evidence/iteration_report.h"
#include "sim/evidence/papers_report.h"

namespace moesim {
namespace {

constexpr const char* begin_mark = "<!-- begin: written by moesim papers --page -->\n";
constexpr double near_enough = 0.15;  // Pages only count what is nearer.
constexpr const char* end_mark = "<!-- end -->";

std::string errors_words(const ErrorSummary& errors) {
  if (errors.errors.empty()) return "- | - | -";
  return fmt::format("{} | {} | {}", errors.errors.size(), percent(errors.median()),
                     percent(errors.percentile_90()));
}

std::string summary_row(const std::string& name, const PaperSummary& sum) {
  return fmt::format("| {} | {} | {} | {} | {} |\n", name, errors_words(sum.absolute),
                     errors_words(sum.relative), order_words(sum.all, "-"),
                     order_words(sum.contested, "-"));
}

std::string summary(const std::vector<JudgedTable>& tables) {
  std::string text =
      "| table | absolute figures | median error | 90 % within | relative figures | median error | "
      "90 % within | pairs in order | contested |\n|---|---|---|---|---|---|---|---|---|\n";
  for (const JudgedTable& t : tables) {
    if (!t.counts_with_others()) continue;
    text += summary_row(fmt::format("[{0}](#{0})", t.table.name), t.summary());
  }
  const PaperSummary total = total_of(tables);
  text += summary_row("**all**", total);
  if (total.outside == 0) return text;
  return text + summary_row(fmt::format("with the {} figures outside", total.outside),
                            total_of(with_those_outside(tables)));
}

std::string bullets(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "- " + line + "\n";
  return text.empty() ? "" : text + "\n";
}

std::string figure_row(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  const PredictedFigure& predicted = t.predicted[f];
  const auto error = t.error(f);
  return fmt::format("| {} | {} | {} | {} |\n", figure.name,
                     figure.published ? figure_words(figure, *figure.published) : "-",
                     predicted.there() ? figure_words(figure, predicted.value) : predicted.why,
                     !error ? "-"
                     : figure.mark().empty()
                         ? signed_percent(*error)
                         : fmt::format("{}, {}", signed_percent(*error), figure.mark()));
}

/// The figures that are off; all others by number, also figures that nobody claims.
std::string rows_of(const JudgedTable& t) {
  std::string rows;
  int near = 0, claimed = 0, outside = 0;
  for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
    if (!t.table.figures[f].ordered.empty()) continue;
    if (!t.table.figures[f].outside.empty()) {
      ++outside;
      continue;
    }
    ++claimed;
    const auto error = t.error(f);
    const bool off = !error || std::abs(*error) > near_enough;
    if (off) rows += figure_row(t, f);
    near += off ? 0 : 1;
  }
  std::string text =
      rows.empty()
          ? ""
          : "| figure | published | simulated | error |\n|---|---|---|---|\n" + rows + "\n";
  if (outside > 0) text += fmt::format("Outside: {}.\n\n", counted(outside, "figure"));
  if (near == 0) return text;
  if (near == claimed) return text + fmt::format("All within {:.0f} %.\n\n", 100 * near_enough);
  return text +
         fmt::format("Within {:.0f} %: {} of {} figures.\n\n", 100 * near_enough, near, claimed);
}

/// The first few by name.
std::string wrong_order(const JudgedTable& t) {
  constexpr int most_named = 2;
  std::string text;
  int count = 0;
  for (const PaperPair& pair : t.pairs) {
    if (!pair.contested || pair.right || ++count > most_named) continue;
    const PaperFigure& first = t.table.figures[pair.first];
    text += fmt::format(
        "{}{} / {}", text.empty() ? "" : "; ", first.name,
        pair.second ? t.table.figures[*pair.second].name : t.table.variants[*first.over].name);
  }
  if (count > most_named) text += fmt::format(", and {} more", count - most_named);
  return text.empty() ? "" : fmt::format("Contested pairs in the wrong order: {}.\n\n", text);
}

/// Orders that the source states whatever their size.
std::string stated_orders(const JudgedTable& t) {
  std::string text;
  for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
    const PaperFigure& figure = t.table.figures[f];
    if (figure.ordered.empty()) continue;
    const auto right = t.in_order(f);
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", figure.name,
                        !right   ? "not simulated"
                        : *right ? "right"
                                 : fmt::format("wrong: {:.2f}", t.predicted[f].value));
  }
  return text.empty() ? "" : fmt::format("Published orders: {}.\n\n", text);
}

std::string section(const JudgedTable& t) {
  const std::string text =
      fmt::format("### {}\n\n{}. Source: {}.\n\n", t.table.name, t.table.title, t.table.source);
  return text + rows_of(t) + wrong_order(t) + stated_orders(t) + bullets(t.table.misses);
}

/// What a page shows depends on what the tables have: only headlines, only iterations, or others.
std::string tables_of_page(const std::vector<JudgedTable>& tables) {
  const auto all = [&](auto is) { return std::ranges::all_of(tables, is); };
  if (all([](const JudgedTable& t) { return t.table.headlines; })) return headlines_page(tables);
  if (all([](const JudgedTable& t) { return t.table.iterations; })) return iterations_page(tables);
  std::string text = summary(tables) + "\n";
  for (const JudgedTable& t : tables) {
    if (t.counts_with_others()) text += section(t);
  }
  return text;
}

}  // namespace

std::string with_written(const std::string& file, const std::string& page,
                         const std::string& written) {
  const auto begin = page.find(begin_mark), end = page.find(end_mark, begin);
  if (begin == std::string::npos || end == std::string::npos) {
    throw error_in(
        file, "has no place for the tables",
        fmt::format("lines '{}' and '{}'",
                    std::string(begin_mark, std::string(begin_mark).size() - 1), end_mark));
  }
  return page.substr(0, begin) + begin_mark + written + page.substr(end);
}

std::string papers_page(const std::string& file, const std::string& page,
                        const std::vector<JudgedTable>& tables) {
  return with_written(file, page, tables_of_page(tables));
}

}  // namespace moesim
