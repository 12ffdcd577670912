// SPDX-License-Identifier: Apache-2.0
// Published figures against simulated ones: errors, and pairs in the right order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/evidence/predict.h"

namespace moesim {

/// Pairs that differ less are not expected in order.
inline constexpr double paper_order_margin = 0.05;

/// Pairs of figures in the order as published.
struct OrderCount {
  int pairs = 0, right = 0;
  void add(bool is_right) { ++pairs, right += is_right ? 1 : 0; }
  void add(const OrderCount& other) { pairs += other.pairs, right += other.right; }
};

/// Two figures of one table, indices; `second` none: the variant that the speedup is over.
struct PaperPair {
  std::size_t first;
  std::optional<std::size_t> second;
  bool contested = false;  // policies, or variants of one, in one setting
  bool right = false;
};

struct ErrorSummary {
  std::vector<double> errors;  // absolute values
  double median() const;
  double percentile_90() const;  // the least that 90 % do not exceed
  void add(const ErrorSummary& other);
};

/// Summary of a table, or of several together. Figures that something was fitted to do not count.
struct PaperSummary {
  ErrorSummary absolute, relative;
  OrderCount all, contested;
  int figures = 0, predicted = 0, fitted = 0, outside = 0;
  void add(const PaperSummary& other);
};

struct JudgedTable {
  PaperTable table;
  PredictedTable predicted;
  std::vector<PaperPair> pairs;  // that differ by more than the margin

  /// Simulated / published - 1, of a range over its nearer end and 0 inside; none if either is not
  /// there.
  std::optional<double> error(std::size_t figure) const;
  /// Whether who is ahead is as published; none if nothing says so, or it is not simulated.
  std::optional<bool> in_order(std::size_t figure) const;
  PaperSummary summary() const;
  std::string place(std::size_t figure) const {
    return table.name + "/" + table.figures[figure].name;
  }
  /// Of a row of iterations, in model flop per second and GPU: equal if rows are one scenario. Of a
  /// pass of serving, in passes per second.
  double simulated_rate(std::size_t row) const;
  /// Whether the total has its figures: those of headlines are in other tables, too, and iterations
  /// have their own (iteration_summary.h).
  bool counts_with_others() const { return !table.headlines && !table.iterations; }
};

std::vector<JudgedTable> judged(std::vector<PaperTable> tables,
                                std::vector<PredictedTable> predicted);
/// Of all that counts_with_others().
PaperSummary total_of(const std::vector<JudgedTable>& tables);
/// The same tables with the figures counted that are outside what moesim claims.
std::vector<JudgedTable> with_those_outside(std::vector<JudgedTable> tables);

}  // namespace moesim
