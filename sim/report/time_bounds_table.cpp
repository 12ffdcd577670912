// SPDX-License-Identifier: Apache-2.0
#include "sim/report/time_bounds_table.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace moesim {
namespace {

struct NamedBound {
  const char* column;
  const char* key;
  Seconds TimeBounds::*bound;
};
constexpr std::array bound_columns = {
    NamedBound{"balance", "perfect_balance_s", &TimeBounds::balance},
    NamedBound{"compute", "pure_compute_s", &TimeBounds::compute},
    NamedBound{"port", "pure_port_s", &TimeBounds::port},
    NamedBound{"no exchange", "no_communication_s", &TimeBounds::no_communication},
    NamedBound{"no bubble", "no_bubble_s", &TimeBounds::no_bubble},
};

}  // namespace

void add_time_bounds(Table& table, int block, const std::vector<BoundedRow>& rows) {
  const auto blocks = static_cast<std::size_t>(block) + 1;
  table.titles.resize(std::max(table.titles.size(), blocks));
  table.titles[blocks - 1] = time_bounds_title;
  for (const NamedBound& bound : bound_columns) {
    table.columns.push_back({bound.column, TableColumn::Kind::figure, block});
    for (std::size_t i = 0; i < rows.size(); ++i) {
      table.rows[i].push_back(percent_cell(rows[i].bounds.*bound.bound / rows[i].simulated, 1));
    }
  }
}

nlohmann::ordered_json time_bounds_json(const TimeBounds& bounds) {
  nlohmann::ordered_json json;
  for (const NamedBound& bound : bound_columns) json[bound.key] = (bounds.*bound.bound).value;
  return json;
}

}  // namespace moesim
