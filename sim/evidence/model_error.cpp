// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/model_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/evidence/papers_report.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kept_hint = "moesim papers --keep writes one";

std::map<std::string, double> read_errors(const std::string& file, const Json& document,
                                          const std::string& kind) {
  std::map<std::string, double> errors;
  if (!document.contains(kind) || !document[kind].is_object()) {
    throw error_in(file, fmt::format("has no errors under '{}'", kind), kept_hint);
  }
  for (const auto& [name, error] : document[kind].items()) {
    if (!error.is_number() || error.get<double>() <= -1) {
      throw error_in(file, fmt::format("'{}' is not an error above -1", name), kept_hint);
    }
    errors[name] = error.get<double>();
  }
  return errors;
}

/// The first value at which the weights before it and its own reach the part of all.
double weighted_quantile(const std::vector<std::pair<double, double>>& sorted, double part) {
  double all = 0, before = 0;
  for (const auto& [value, weight] : sorted) all += weight;
  for (const auto& [value, weight] : sorted) {
    before += weight;
    if (before >= part * all * (1 - 1e-12)) return value;
  }
  return sorted.back().first;
}

}  // namespace

ModelError model_error(const ErrorsByTable& errors) {
  std::vector<std::pair<double, double>> weighted;
  for (const auto& [table, list] : errors) {
    for (const double e : list) weighted.emplace_back(1 + e, 1 / static_cast<double>(list.size()));
  }
  if (weighted.empty()) throw std::invalid_argument("no errors");
  std::ranges::sort(weighted);
  const auto tables = static_cast<double>(errors.size());
  const double beyond = 0.05 * tables / (tables + 1);
  return {weighted_quantile(weighted, beyond), weighted_quantile(weighted, 1 - beyond)};
}

StoredErrors read_papers_state(const std::string& file, const std::string& text) {
  const Json document = parse_json(text, {file, 1, kept_hint});
  if (!document.is_object() || document.value("format", Json()) != papers_state_format) {
    throw error_in(file, "is not a stored state of moesim papers", kept_hint);
  }
  StoredErrors errors{
      read_errors(file, document, "absolute"), read_errors(file, document, "relative"), {}, {}};
  if (document.contains("headlines")) errors.headlines = read_errors(file, document, "headlines");
  for (const auto& name : document.value("networks", Json::array())) {
    if (name.is_string()) errors.networks.insert(name.get<std::string>());
  }
  const Json orders = document.value("orders", Json::object());
  for (const auto& [name, right] : orders.items()) {
    if (right == true) errors.right_orders.insert(name);
  }
  return errors;
}

ErrorsByTable by_table(const std::map<std::string, double>& errors) {
  ErrorsByTable tables;
  for (const auto& [name, error] : errors) tables[name.substr(0, name.find('/'))].push_back(error);
  return tables;
}

ErrorsByTable pairs_within(const ErrorsByTable& errors) {
  ErrorsByTable pairs;
  for (const auto& [table, list] : errors) {
    for (std::size_t a = 0; a < list.size(); ++a) {
      for (std::size_t b = 0; b < list.size(); ++b) {
        if (a != b) pairs[table].push_back((1 + list[a]) / (1 + list[b]) - 1);
      }
    }
  }
  return pairs;
}

UnmeasuredErrors unmeasured_errors(const StoredErrors& data_sheets, const StoredErrors& left_out) {
  return {model_error(by_table(data_sheets.absolute)), model_error(by_table(data_sheets.relative)),
          model_error(by_table(left_out.absolute)),
          model_error(pairs_within(by_table(left_out.absolute)))};
}

namespace {

StoredErrors shipped_state(const std::string& state, const std::string& writer) {
  for (const std::string& root : data_roots()) {
    const std::string file = root + "/" + state;
    if (is_there(file)) return read_papers_state(file, read_file(file));
  }
  throw Error(fmt::format("no {} among the data: nothing says how far times are off", state),
              writer + " --keep writes one");
}

ShippedModelErrors shipped_errors(const std::string& state, const std::string& writer) {
  const StoredErrors stored = shipped_state(state, writer);
  const std::string iterations = "moesim papers --iterations";
  // Passes state no speedups: these are off as two of a table are.
  const ErrorsByTable speedups =
      stored.relative.empty() ? pairs_within(by_table(stored.absolute)) : by_table(stored.relative);
  return {
      model_error(by_table(stored.absolute)), model_error(speedups),
      unmeasured_errors(shipped_state("papers/data-sheets-state.json", iterations + " --leave-out"),
                        shipped_state("papers/left-out-state.json", "moesim papers --leave-out")),
      shipped_state("papers/iterations-state.json", iterations).networks};
}

}  // namespace

ShippedModelErrors shipped_errors_of_steps() {
  return shipped_errors("papers/state.json", "moesim papers");
}

ShippedModelErrors shipped_errors_of_iterations() {
  return shipped_errors("papers/iterations-state.json", "moesim papers --iterations");
}

ShippedModelErrors shipped_errors_of_passes() {
  return shipped_errors("papers/serving-state.json", "moesim papers --serving");
}

}  // namespace moesim
