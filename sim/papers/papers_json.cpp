// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/papers/model_error.h"
#include "sim/papers/papers_report.h"

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
  return {{"name", t.table.name},
          {"title", t.table.title},
          {"source", t.table.source},
          {"xxh3", t.table.hash},
          {"figures", figures},
          {"contested_pairs", pairs},
          {"summary", summary_json(t.summary())}};
}

std::string place_of(const JudgedTable& t, std::size_t f) {
  return t.table.name + "/" + t.table.figures[f].name;
}

}  // namespace

std::string papers_json(const std::vector<JudgedTable>& tables, const std::string& version) {
  Json list = Json::array();
  for (const JudgedTable& t : tables) list.push_back(table_json(t));
  const Json document = {{"format", format_name},
                         {"format_version", 1},
                         {"moesim", version},
                         {"order_margin", paper_order_margin},
                         {"summary", summary_json(total_of(tables))},
                         {"with_those_outside", summary_json(total_of(with_those_outside(tables)))},
                         {"tables", list}};
  return document.dump(1) + "\n";
}

std::string papers_state(const std::vector<JudgedTable>& tables) {
  Json absolute = Json::object(), relative = Json::object(), headlines = Json::object(),
       orders = Json::object();
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      const auto error = t.error(f);
      const PaperFigure& figure = t.table.figures[f];
      const bool stated = t.table.headlines || !figure.ordered.empty();
      if (const auto right = t.in_order(f); stated && right) orders[place_of(t, f)] = *right;
      if (!error || !figure.mark().empty()) continue;
      Json& kind = t.table.headlines ? headlines : figure.relative() ? relative : absolute;
      kind[place_of(t, f)] = std::round(*error * 1e4) / 1e4;
    }
  }
  const Json state = {{"format", papers_state_format},
                      {"absolute", absolute},
                      {"relative", relative},
                      {"headlines", headlines},
                      {"orders", orders}};
  return state.dump(1) + "\n";
}

std::vector<std::string> grown_errors(const std::string& file, const std::string& stored,
                                      const std::vector<JudgedTable>& tables, double slack) {
  StoredErrors before = read_papers_state(file, stored);
  before.absolute.merge(before.relative);
  before.absolute.merge(before.headlines);
  std::vector<std::string> grown;
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      const auto order = before.right_orders.find(place_of(t, f));
      if (order != before.right_orders.end() && !t.in_order(f).value_or(false)) {
        grown.push_back(*order + ": the order was right, and is not");
      }
      const auto found = before.absolute.find(place_of(t, f));
      if (found == before.absolute.end()) continue;
      const auto error = t.error(f);
      if (error && std::abs(*error) <= std::abs(found->second) + slack) continue;
      grown.push_back(fmt::format("{}: was {}, is {}", found->first, signed_percent(found->second),
                                  error ? signed_percent(*error) : "not predicted"));
    }
  }
  return grown;
}

}  // namespace moesim
