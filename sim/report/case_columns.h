// SPDX-License-Identifier: Apache-2.0
// The columns of a comparison, with what tokens cost. Every one is defined in docs/metrics.md.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/compared.h"
#include "sim/report/token_costs.h"

namespace moesim {

inline constexpr const char* dollars_column = "$/Mtoken";  // per million tokens
inline constexpr const char* joules_column = "J/token";

inline Cell cost_cell(const std::optional<double>& cost) {
  return cost ? Cell(fmt::format("{:#.4g}", *cost), *cost) : Cell("-");
}
inline Cell dollars_cell(const TokenCosts& costs) { return cost_cell(costs.dollars_per_million); }
inline Cell joules_cell(const TokenCosts& costs) { return cost_cell(costs.joules); }

/// A case that ran, and what it is compared with.
struct ShownCase {
  const CaseResult& of;
  Compared against;

  const RunMetrics& run() const { return of.metrics; }
  const IterationFigures& iteration() const { return *run().iteration; }
  Seconds time() const { return run().mean_step(); }
  double steps() const { return static_cast<double>(run().steps.size()); }
  TokenCosts costs() const {
    return TokenCosts::of(of.costs, of.gpus(), time().value, static_cast<double>(run().tokens));
  }
};

struct CaseColumn {
  std::string name;
  std::function<Cell(const ShownCase&)> cell;
  /// Whether a case has something to say in it; null: each has. A table leaves out a column in
  /// which no case has.
  std::function<bool(const ShownCase&)> telling = nullptr;
  std::string id = {};
};
using CaseColumns = std::vector<CaseColumn>;

inline Cell number_cell(double value, int digits) {
  return {fmt::format("{:.{}f}", value, digits), value};
}

/// What decides, for any step: speedup, migration, what is less exact, costs.
CaseColumns deciding_columns();

/// A block of a table, with the line above it if it has one.
struct ColumnBlock {
  std::string title;
  CaseColumns columns;
};

/// Columns of MoE layers by themselves: times and what binds them; what is moved and held.
std::vector<ColumnBlock> layer_blocks();
/// The first block of passes of serving.
CaseColumns serving_rate_columns();
/// Columns of training iterations: times and rates; the parts of the mean GPU's iteration; the
/// memory of the fullest GPU, if it is known.
std::vector<ColumnBlock> iteration_blocks(const std::vector<ShownCase>& cases);
/// `memory`: the parts that it consists of.
std::vector<ColumnBlock> iteration_blocks(bool serving, const std::vector<std::string>& memory);

}  // namespace moesim
