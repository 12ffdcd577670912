// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/frozen.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/platform.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* frozen_format = "moesim-frozen-predictions";
constexpr const char* frozen_hint = "moesim papers --freeze writes one";

Json figure_json(const JudgedTable& t, std::size_t f, const FrozenErrors& all) {
  const PaperFigure& figure = t.table.figures[f];
  const PredictedFigure& predicted = t.predicted[f];
  if (!predicted.there()) return {{"name", figure.name}, {"not_predicted", predicted.why}};
  const ShippedModelErrors& errors = t.table.iterations ? all.iterations : all.steps;
  const ModelError& model = figure.relative() ? errors.speedups : errors.times;
  return {{"name", figure.name},
          {"kind", figure.relative() ? "relative" : "absolute"},
          {"simulated", predicted.value},
          {"interval_90", {model.least(predicted.value), model.most(predicted.value)}},
          {"inputs", predicted.inputs}};
}

FrozenFigure read_figure(const Json& figure) {
  return {figure.at("simulated").get<double>(), figure.at("interval_90").at(0).get<double>(),
          figure.at("interval_90").at(1).get<double>()};
}

FrozenPredictions read_document(const Json& document) {
  FrozenPredictions frozen{
      {document.at("moesim").get<std::string>(), document.at("program").get<std::string>(),
       document.at("date").get<std::string>()},
      {}};
  for (const Json& table : document.at("tables")) {
    for (const Json& figure : table.at("figures")) {
      if (!figure.contains("simulated")) continue;
      frozen.figures[table.at("name").get<std::string>() + "/" +
                     figure.at("name").get<std::string>()] = read_figure(figure);
    }
  }
  return frozen;
}

}  // namespace

FrozenBy frozen_by_this(const std::string& version) {
  return {version, hash_of(read_bytes(own_program())),
          fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))};
}

std::string frozen_document(const std::vector<JudgedTable>& tables, const FrozenBy& by,
                            const FrozenErrors& errors) {
  Json list = Json::array();
  for (const JudgedTable& t : tables) {
    Json figures = Json::array();
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      figures.push_back(figure_json(t, f, errors));
    }
    list.push_back({{"name", t.table.name}, {"xxh3", t.table.hash}, {"figures", figures}});
  }
  Json document = {{"format", frozen_format}, {"format_version", 1}, {"moesim", by.moesim},
                   {"program", by.program},   {"date", by.date},     {"tables", list}};
  document["seal"] = hash_of(document.dump());
  return document.dump(1) + "\n";
}

FrozenPredictions read_frozen(const std::string& file, const std::string& text) {
  Json document = parse_json(text, {file, 1, frozen_hint});
  if (!document.is_object() || document.value("format", Json()) != frozen_format ||
      !document.contains("seal")) {
    throw error_in(file, "holds no frozen predictions", frozen_hint);
  }
  const Json seal = document["seal"];
  document.erase("seal");
  if (seal != hash_of(document.dump())) {
    throw error_in(file, "was changed since it was written: its seal does not fit");
  }
  try {
    return read_document(document);
  } catch (const Json::exception&) {
    throw error_in(file, "holds no whole predictions", frozen_hint);
  }
}

ScoredPredictions scored(std::vector<PaperTable> tables, const FrozenPredictions& frozen) {
  ScoredPredictions result;
  std::vector<PredictedTable> predictions;
  for (const PaperTable& table : tables) {
    PredictedTable& values = predictions.emplace_back();
    for (const PaperFigure& figure : table.figures) {
      const auto found = frozen.figures.find(table.name + "/" + figure.name);
      if (found == frozen.figures.end()) {
        values.push_back({0, "was not frozen", ""});
        continue;
      }
      values.push_back({found->second.value, "", ""});
      if (!figure.published) continue;
      ++result.known;
      const bool held =
          found->second.least <= *figure.published && *figure.published <= found->second.most;
      result.held += held ? 1 : 0;
    }
  }
  result.tables = judged(std::move(tables), std::move(predictions));
  return result;
}

}  // namespace moesim
