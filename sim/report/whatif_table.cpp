// SPDX-License-Identifier: Apache-2.0
#include "sim/report/whatif_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/report/path_report.h"

namespace moesim {
namespace {

double rate_of(const WhatIfSide& side) {
  return static_cast<double>(side.tokens) / side.time.value;
}

Cell signed_cell(double part) { return Cell(signed_percent(part), part); }

/// The names in which cases differ, and always the policy.
std::vector<std::size_t> telling_names(const std::vector<WhatIfCase>& cases) {
  std::vector<std::size_t> telling;
  for (std::size_t n = 0; n < whatif_names.size(); ++n) {
    const bool differ = std::ranges::any_of(
        cases, [&](const WhatIfCase& c) { return c.name[n] != cases.front().name[n]; });
    if (differ || whatif_names[n] == "policy") telling.push_back(n);
  }
  return telling;
}

std::string not_run(const WhatIfCase& c) {
  std::string text;
  for (const auto& [side, word] : {std::pair(&c.before, "before"), std::pair(&c.after, "after")}) {
    if (side->ran()) continue;
    text += fmt::format("# {} on {} was not run {} the change: {}\n", c.name[1], c.name[0], word,
                        side->unsuitable);
  }
  return text;
}

nlohmann::ordered_json side_json(const WhatIfSide& side) {
  if (!side.ran()) return {{"unsuitable", side.unsuitable}};
  return {{"s", side.time.value},
          {"tokens", side.tokens},
          {"gpus", side.gpus},
          {"critical_path", path_json(side.path, side.path.length / side.time)}};
}

}  // namespace

Printout whatif_table(const std::vector<WhatIfCase>& cases) {
  Printout printout;
  if (cases.empty()) return printout;
  const std::vector<std::size_t> names = telling_names(cases);
  const bool fewer = std::ranges::any_of(
      cases, [](const WhatIfCase& c) { return c.before.tokens != c.after.tokens; });
  std::vector<std::string> columns;
  for (const std::size_t n : names) columns.push_back(whatif_names[n]);
  for (const char* column : {"before", "after", "change"}) columns.emplace_back(column);
  if (fewer) columns.emplace_back("tokens/s");
  columns.emplace_back("critical path");
  columns.emplace_back("then");
  Table table("cases", names.size(), columns);
  std::string notes;
  for (const WhatIfCase& c : cases) {
    notes += not_run(c);
    if (!c.before.ran() || !c.after.ran()) continue;
    auto& row = table.rows.emplace_back();
    for (const std::size_t n : names) row.emplace_back(c.name[n]);
    row.emplace_back(c.before.time);
    row.emplace_back(c.after.time);
    row.push_back(signed_cell(c.after.time / c.before.time - 1));
    if (fewer) row.push_back(signed_cell(rate_of(c.after) / rate_of(c.before) - 1));
    row.emplace_back(path_text(c.before.path));
    row.emplace_back(path_text(c.after.path));
  }
  return printout.add(std::move(table)).add(notes);
}

nlohmann::ordered_json whatif_json(const std::vector<WhatIfCase>& cases) {
  auto list = nlohmann::ordered_json::array();
  for (const WhatIfCase& c : cases) {
    nlohmann::ordered_json json;
    for (std::size_t n = 0; n < whatif_names.size(); ++n) {
      if (!c.name[n].empty()) json[whatif_names[n]] = c.name[n];
    }
    json["before"] = side_json(c.before);
    json["after"] = side_json(c.after);
    if (c.before.ran() && c.after.ran()) {
      json["change"] = c.after.time / c.before.time - 1;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace moesim
