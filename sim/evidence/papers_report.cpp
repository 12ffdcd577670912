// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/papers_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/base/units.h"
#include "sim/evidence/headline_table.h"
#include "sim/evidence/iteration_report.h"

namespace moesim {
namespace {

Cell value_cell(const PaperFigure& figure, double value) {
  if (figure.relative()) return ratio_cell(value, 2);
  if (!figure.bytes) return Seconds(value);
  const double rate = static_cast<double>(figure.bytes->value) / value;
  return {to_string(BytesPerSecond(rate)), rate, "B/s"};
}

std::vector<Cell> row_of(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  const PredictedFigure& predicted = t.predicted[f];
  const auto error = t.error(f);
  return {t.table.name,
          figure.name,
          figure.published ? value_cell(figure, *figure.published) : Cell("-"),
          predicted.there() ? value_cell(figure, predicted.value) : Cell("-"),
          error ? Cell(signed_percent(*error), *error) : Cell("-"),
          figure.mark()};
}

Table figures_table(const std::vector<JudgedTable>& tables) {
  Table table("figures", 2, {"table", "figure", "published", "simulated", "error", "note"});
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      if (t.table.figures[f].ordered.empty()) table.rows.push_back(row_of(t, f));
    }
  }
  return table;
}

Cell part_cell(const ErrorSummary& errors, double value) {
  return errors.errors.empty() ? Cell("-") : percent_cell(value, 1);
}

void add_summary(Table& table, const std::string& name, const PaperSummary& sum) {
  for (const bool relative : {false, true}) {
    const ErrorSummary& errors = relative ? sum.relative : sum.absolute;
    if (errors.errors.empty()) continue;
    table.rows.push_back(
        {name, relative ? "relative" : "absolute", static_cast<std::int64_t>(errors.errors.size()),
         part_cell(errors, errors.median()), part_cell(errors, errors.percentile_90()),
         order_words(sum.all, "-"), order_words(sum.contested, "-")});
  }
}

Table summary_table(const std::vector<JudgedTable>& tables) {
  Table table("summary", 2,
              {"table", "kind", "figures", "median", "90 %", "in order", "contested"});
  for (const JudgedTable& t : tables) add_summary(table, t.table.name, t.summary());
  const PaperSummary total = total_of(tables);
  add_summary(table, "all", total);
  if (total.outside > 0) {
    add_summary(table, "with those outside", total_of(with_those_outside(tables)));
  }
  return table;
}

/// What does not count in the totals, because moesim does not claim it, and why.
std::string outside(const std::vector<JudgedTable>& tables) {
  std::string text;
  for (const JudgedTable& t : tables) {
    for (const PaperFigure& figure : t.table.figures) {
      if (figure.outside.empty()) continue;
      text += fmt::format("# outside: {}, {}: {}\n", t.table.name, figure.name, figure.outside);
    }
  }
  return text;
}

using Json = nlohmann::ordered_json;

constexpr const char* format_name = "moesim-papers";

template <class T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json judged_json(const JudgedTable& t, std::size_t f) {
  const PaperFigure& figure = t.table.figures[f];
  const PredictedFigure& predicted = t.predicted[f];
  Json json = {{"name", figure.name},
               {"setting", t.table.settings[figure.setting].name},
               {"policy", t.table.variants[figure.variant].name},
               {"measure", measure_names[static_cast<std::size_t>(figure.measure)]},
               {"kind", figure.relative() ? "relative" : "absolute"},
               {"published", or_null(figure.published)}};
  if (figure.up_to) json["up_to"] = *figure.up_to;
  if (figure.by_formula) json["by_formula"] = true;
  if (!figure.ordered.empty()) json["order_source"] = figure.ordered;
  if (t.table.headlines) {
    json["system"] = figure.headline.system;
    json["claim"] = figure.headline.claim;
    json["scenario"] = t.table.settings[figure.setting].scenario;
    json["source"] = figure.headline.source;
    json["why"] = figure.headline.why;
  }
  if (const auto order = t.in_order(f)) json["in_order"] = *order;
  if (figure.iteration) json["iteration"] = row_json(t, f);
  if (figure.over) json["over"] = t.table.variants[*figure.over].name;
  if (figure.spread) json["spread"] = *figure.spread;
  if (!figure.fitted.empty()) json["fitted"] = figure.fitted;
  if (!figure.outside.empty()) json["outside"] = figure.outside;
  if (!predicted.there()) {
    json["not_predicted"] = predicted.why;
    return json;
  }
  json["simulated"] = predicted.value;
  json["error"] = or_null(t.error(f));
  return json;
}

Json order_json(const OrderCount& order) {
  return {{"pairs", order.pairs}, {"right", order.right}};
}

Json errors_json(const ErrorSummary& errors) {
  if (errors.errors.empty()) return {{"figures", 0}};
  return {{"figures", errors.errors.size()},
          {"median", errors.median()},
          {"percentile_90", errors.percentile_90()}};
}

Json summary_json(const PaperSummary& sum) {
  return {{"absolute", errors_json(sum.absolute)},
          {"relative", errors_json(sum.relative)},
          {"order", order_json(sum.all)},
          {"contested", order_json(sum.contested)}};
}

Json pair_json(const JudgedTable& t, const PaperPair& pair) {
  const auto& figures = t.table.figures;
  const PaperFigure& first = figures[pair.first];
  return {{"first", first.name},
          {"second", pair.second ? figures[*pair.second].name : t.table.variants[*first.over].name},
          {"right", pair.right}};
}

Json table_json(const JudgedTable& t) {
  Json figures = Json::array(), pairs = Json::array();
  for (std::size_t f = 0; f < t.table.figures.size(); ++f) figures.push_back(judged_json(t, f));
  for (const PaperPair& pair : t.pairs) {
    if (pair.contested) pairs.push_back(pair_json(t, pair));
  }
  Json json = {{"name", t.table.name},
               {"title", t.table.title},
               {"source", t.table.source},
               {"xxh3", t.table.hash},
               {"figures", figures}};
  if (t.table.iterations) {
    json["iterations"] = iteration_summary_json(iteration_summary(t));
  } else {
    json["contested_pairs"] = pairs;
    json["summary"] = summary_json(t.summary());
  }
  return json;
}

}  // namespace

std::string not_predicted_lines(const std::vector<JudgedTable>& tables) {
  std::string text;
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.predicted.size(); ++f) {
      if (t.predicted[f].there()) continue;
      text +=
          fmt::format("# {}, {}: {}\n", t.table.name, t.table.figures[f].name, t.predicted[f].why);
    }
  }
  return text;
}

std::string figure_words(const PaperFigure& figure, double value) {
  if (figure.relative()) return fmt::format("{:.2f}", value);
  if (!figure.bytes) return to_string(Seconds(value));
  return to_string(BytesPerSecond(static_cast<double>(figure.bytes->value) / value));
}

std::string order_words(const OrderCount& order, const std::string& none) {
  return order.pairs == 0 ? none : fmt::format("{} of {}", order.right, order.pairs);
}

Printout papers_text(const std::vector<JudgedTable>& all, const std::string& version) {
  Printout printout;
  printout.add(fmt::format("# moesim {}: published figures against simulated ones\n", version));
  printout.add(headlines_text(all));
  std::vector<JudgedTable> tables = all;
  std::erase_if(tables, [](const JudgedTable& t) { return !t.counts_with_others(); });
  if (tables.empty()) return printout.add(iterations_text(all));
  printout.add(figures_table(tables)).add(not_predicted_lines(tables)).add(outside(tables));
  printout.add(
      fmt::format("\n# errors are absolute values; in order: pairs "
                  "that differ by more than {:.0f} % as "
                  "published, as simulated too\n# contested: of "
                  "these, policies or variants of one in the same "
                  "setting\n",
                  100 * paper_order_margin));
  printout.add(summary_table(tables)).add(orders_text(tables));
  return printout.add(iterations_text(all));
}

std::string papers_json(const std::vector<JudgedTable>& tables, const std::string& version) {
  Json list = Json::array();
  for (const JudgedTable& t : tables) list.push_back(table_json(t));
  Json document = {{"format", format_name},
                   {"format_version", 1},
                   {"moesim", version},
                   {"order_margin", paper_order_margin},
                   {"summary", summary_json(total_of(tables))},
                   {"with_those_outside", summary_json(total_of(with_those_outside(tables)))},
                   {"tables", list}};
  const IterationSummary iterations = total_of_iterations(tables);
  if (iterations.rows > 0) document["iterations"] = iteration_summary_json(iterations);
  const IterationSummary serving = total_of_iterations(tables, true);
  if (serving.rows > 0) document["serving"] = iteration_summary_json(serving);
  return document.dump(1) + "\n";
}

}  // namespace moesim
