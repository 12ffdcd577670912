// SPDX-License-Identifier: Apache-2.0
#include "sim/report/elasticity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"

namespace moesim {
namespace {

constexpr double no_effect = 5e-5;

std::vector<Elasticity> largest_first(std::vector<Elasticity> list) {
  std::ranges::stable_sort(list, std::ranges::greater(),
                           [](const Elasticity& e) { return std::abs(e.change()); });
  return list;
}

}  // namespace

Printout elasticity_table(const std::vector<Elasticity>& list) {
  Table table("elasticities", 1, {"resource", "better by", "time", "change"});
  std::vector<std::string> others;
  for (const Elasticity& e : largest_first(list)) {
    if (std::abs(e.change()) < no_effect) {
      others.push_back(e.resource);
      continue;
    }
    table.rows.push_back({e.resource, Cell(signed_percent(e.factor - 1), e.factor - 1), e.after,
                          Cell(fmt::format("{:+.2f} %", 100 * e.change()), e.change())});
  }
  Printout printout;
  if (!table.rows.empty()) printout.add(std::move(table));
  if (!others.empty()) printout.add(fmt::format("# without effect: {}\n", fmt::join(others, ", ")));
  return printout;
}

nlohmann::ordered_json elasticities_json(const std::vector<Elasticity>& list) {
  auto json = nlohmann::ordered_json::array();
  for (const Elasticity& e : largest_first(list)) {
    json.push_back({{"resource", e.resource},
                    {"factor", e.factor},
                    {"before_s", e.before.value},
                    {"after_s", e.after.value},
                    {"change", e.change()}});
  }
  return json;
}

}  // namespace moesim
