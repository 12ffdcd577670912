// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/evidence/iteration_report.h"
#include "sim/evidence/papers_report.h"

namespace moesim {
namespace {

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
