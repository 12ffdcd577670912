// SPDX-License-Identifier: Apache-2.0
// The stored errors that later runs are held against.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/figures.h"
#include "sim/evidence/iteration_summary.h"
#include "sim/evidence/model_error.h"
#include "sim/evidence/papers_report.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double error) { return std::round(error * 1e4) / 1e4; }

}  // namespace

std::string papers_state(const std::vector<JudgedTable>& tables) {
  Json absolute = Json::object(), relative = Json::object(), headlines = Json::object(),
       orders = Json::object();
  std::set<std::string> networks;
  for (const JudgedTable& t : tables) {
    for (std::size_t f = 0; f < t.table.figures.size(); ++f) {
      const auto error = t.error(f);
      const PaperFigure& figure = t.table.figures[f];
      const bool stated = t.table.headlines || !figure.ordered.empty();
      if (const auto right = t.in_order(f); stated && right) orders[t.place(f)] = *right;
      if (!error || !figure.mark().empty()) continue;
      Json& kind = t.table.headlines ? headlines : figure.relative() ? relative : absolute;
      kind[t.place(f)] = rounded(*error);
      const auto& iteration = t.predicted[f].iteration;
      if (iteration && !iteration->network.empty()) networks.insert(iteration->network);
    }
    if (!t.table.iterations || t.table.serving) continue;
    for (const auto& [place, error] : errors_of_speedups(t)) relative[place] = rounded(error);
  }
  Json state = {{"format", papers_state_format},
                {"absolute", absolute},
                {"relative", relative},
                {"headlines", headlines},
                {"orders", orders}};
  if (!networks.empty()) state["networks"] = networks;
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
      const auto order = before.right_orders.find(t.place(f));
      if (order != before.right_orders.end() && !t.in_order(f).value_or(false)) {
        grown.push_back(*order + ": the order was right, and is not");
      }
      const auto found = before.absolute.find(t.place(f));
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
