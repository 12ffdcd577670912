// SPDX-License-Identifier: Apache-2.0
// Columns of what tokens cost, in tables of steps and of iterations.
#pragma once

#include <fmt/format.h>

#include "sim/print/table.h"
#include "sim/report/token_costs.h"

namespace moesim {

inline constexpr const char* dollars_column = "$/Mtoken";  // per million tokens
inline constexpr const char* joules_column = "J/token";

inline Cell cost_cell(const std::optional<double>& cost) {
  return cost ? Cell(fmt::format("{:#.4g}", *cost), *cost) : Cell("-");
}
inline Cell dollars_cell(const TokenCosts& costs) { return cost_cell(costs.dollars_per_million); }
inline Cell joules_cell(const TokenCosts& costs) { return cost_cell(costs.joules); }

}  // namespace moesim
