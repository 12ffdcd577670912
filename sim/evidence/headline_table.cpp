// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/headline_table.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/evidence/papers_report.h"
#include "sim/evidence/shipped_tables.h"

namespace moesim {
namespace {

/// Calls `visit(table, index)` for every headline.
template <class Visit>
void each_headline(const std::vector<JudgedTable>& tables, const Visit& visit) {
  for (const JudgedTable& t : tables) {
    if (!t.table.headlines) continue;
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) visit(t, f);
  }
}

std::string published_words(const PaperFigure& figure) {
  if (!figure.published) return "-";
  std::string text = figure_words(figure, *figure.published);
  if (figure.up_to) text += fmt::format(" to {}", figure_words(figure, *figure.up_to));
  return figure.by_formula ? text + " (formula)" : text;
}

/// In the order of the columns.
struct HeadlineRow {
  std::string system, claim, scenario, published, simulated, off, order;
};

HeadlineRow words_of(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  const PredictedFigure& predicted = t.predicted[f];
  const auto error = t.error(f);
  const auto order = t.in_order(f);
  constexpr double nothing = 0.0005;  // printed without a sign
  const std::string off = !error                       ? "-"
                          : std::abs(*error) < nothing ? "0.0 %"
                                                       : signed_percent(*error);
  return {figure.headline.system,
          figure.headline.claim,
          t.table.settings[figure.setting].scenario,
          published_words(figure),
          predicted.there() ? figure_words(figure, predicted.value) : "-",
          figure.outside.empty() ? off : off + " (outside)",
          !order   ? "-"
          : *order ? "right"
                   : "WRONG"};
}

/// Why a headline differs, why it is not claimed, or why there is none.
std::string reason_of(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  if (!t.predicted[f].there()) return "not simulated: " + t.predicted[f].why;
  return figure.outside.empty() ? figure.headline.why
                                : figure.headline.why + " Outside: " + figure.outside + ".";
}

std::string reason_line(const JudgedTable& t, std::size_t f) {
  const Headline& headline = t.table.figures[f].headline;
  return fmt::format("{}, {} ({}): {}\n", headline.system, headline.claim, headline.source,
                     reason_of(t, f));
}

/// The names by which a headline can be asked for.
std::vector<std::string> names_of(const PaperTable& table, const PaperFigure& figure) {
  return {figure.headline.system, table.settings[figure.setting].scenario};
}

}  // namespace

std::vector<PaperTable> headlines_of(std::vector<PaperTable> tables,
                                     const std::vector<std::string>& only) {
  std::erase_if(tables, [](const PaperTable& t) { return !t.headlines; });
  if (only.empty()) return tables;
  std::set<std::string> all, met;
  for (PaperTable& table : tables) {
    std::erase_if(table.figures, [&](const PaperFigure& figure) {
      bool asked = false;
      for (const std::string& name : names_of(table, figure)) {
        all.insert(name);
        for (const std::string& pattern : only) {
          if (!is_meant(name, pattern)) continue;
          asked = true;
          met.insert(pattern);
        }
      }
      return !asked;
    });
  }
  for (const std::string& pattern : only) {
    if (met.contains(pattern)) continue;
    throw Error(fmt::format("--only {}: no headline of such a system or scenario", pattern),
                did_you_mean(pattern, {all.begin(), all.end()}));
  }
  return tables;
}

std::string HeadlineCount::words() const {
  std::string text = fmt::format("{} of {} sizes within {:.0f} %, {} of {} orders as published",
                                 met, sizes, 100 * headline_margin, orders.right, orders.pairs);
  if (not_simulated > 0) text += fmt::format(", {} not simulated", not_simulated);
  return text;
}

HeadlineCount count_headlines(const std::vector<JudgedTable>& tables) {
  HeadlineCount count;
  each_headline(tables, [&](const JudgedTable& t, std::size_t f) {
    if (!t.predicted[f].there()) ++count.not_simulated;
    if (const auto order = t.in_order(f)) count.orders.add(*order);
    const auto error = t.error(f);
    if (!error || !t.table.figures[f].mark().empty()) return;
    ++count.sizes;
    count.met += std::abs(*error) <= headline_margin ? 1 : 0;
  });
  return count;
}

Printout headlines_text(const std::vector<JudgedTable>& tables) {
  Printout printout;
  Table table("headlines", 3,
              {"system", "claim", "scenario", "published", "simulated", "off by", "order"});
  std::string reasons;
  each_headline(tables, [&](const JudgedTable& t, std::size_t f) {
    const HeadlineRow row = words_of(t, f);
    table.rows.push_back(
        {row.system, row.claim, row.scenario, row.published, row.simulated, row.off, row.order});
    reasons += "# " + reason_line(t, f);
  });
  if (table.rows.empty()) return printout;
  printout.add("# published headlines; moesim compare SCENARIO shows each\n");
  return printout.add(std::move(table))
      .add(fmt::format("# {}\n", count_headlines(tables).words()))
      .add(reasons);
}

std::string headlines_page(const std::vector<JudgedTable>& tables) {
  std::string rows;
  each_headline(tables, [&](const JudgedTable& t, std::size_t f) {
    const HeadlineRow row = words_of(t, f);
    rows += fmt::format("| {} | {} | `{}` | {} | {} | {} | {} |\n", row.system, row.claim,
                        row.scenario, row.published, row.simulated, row.off, row.order);
  });
  return fmt::format(
      "| system | claim | `moesim compare` | published | simulated | off by | order |\n"
      "|---|---|---|---|---|---|---|\n{}\n{}.\n",
      rows, count_headlines(tables).words());
}

Printout orders_text(const std::vector<JudgedTable>& tables) {
  Printout printout;
  Table table("orders", 2, {"table", "published order", "simulated speedup", "order"});
  OrderCount count;
  std::string sources;
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      const PaperFigure& figure = t.table.figures[f];
      if (figure.ordered.empty()) continue;
      const auto right = t.in_order(f);
      if (right) count.add(*right);
      table.rows.push_back({t.table.name, figure.name,
                            right ? ratio_cell(t.predicted[f].value, 2) : Cell("-"),
                            !right   ? "-"
                            : *right ? "right"
                                     : "WRONG"});
      if (right && !*right) {
        sources += fmt::format("# wrong: {}, {} ({})\n", t.table.name, figure.name, figure.ordered);
      }
    }
  }
  if (table.rows.empty()) return printout;
  printout.add("\n# orders that sources state, whatever their size: they count apart\n");
  return printout.add(std::move(table))
      .add(fmt::format("# {} hold\n{}", order_words(count, "none simulated; 0"), sources));
}

}  // namespace moesim
