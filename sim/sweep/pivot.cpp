// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/pivot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/error.h"
#include "sim/sweep/query.h"
#include "sim/sweep/stored_value.h"

namespace moesim {

Aim aim_of(const std::string& text) {
  if (text.starts_with('-')) return {text.substr(1), -1};
  return {text, 1};
}

Table pivot_table(const StoredRows& rows, const std::vector<std::string>& of, const Aim& aim) {
  if (of.size() != 2) {
    throw Error("--pivot needs two columns", "for example --pivot policy,topology.nodes");
  }
  const std::size_t down = column_of(rows, of[0]), across = column_of(rows, of[1]),
                    figure = column_of(rows, aim.figure);
  std::vector<std::string> down_names, across_names;
  std::map<std::pair<std::string, std::string>, double> best;
  const auto note = [](std::vector<std::string>& names, const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const auto& row : rows.rows) {
    const double number = number_of(row[figure]);
    if (std::isnan(number)) continue;
    const std::pair key(text_of(row[down]), text_of(row[across]));
    note(down_names, key.first);
    note(across_names, key.second);
    const auto [place, is_new] = best.try_emplace(key, number);
    if (!is_new && aim.sign * number < aim.sign * place->second) place->second = number;
  }
  std::vector<std::string> names = {of[0]};
  names.insert(names.end(), across_names.begin(), across_names.end());
  Table table("pivot", 1, names);
  table.titles = {fmt::format("{} by {}", aim.figure, of[1])};
  for (const std::string& name : down_names) {
    auto& cells = table.rows.emplace_back(std::vector<Cell>{name});
    for (const std::string& column : across_names) {
      const auto found = best.find({name, column});
      cells.push_back(found == best.end() ? Cell("")
                                          : cell_of(aim.figure, real_value(found->second)));
    }
  }
  return table;
}

}  // namespace moesim
