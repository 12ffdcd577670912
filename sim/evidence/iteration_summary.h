// SPDX-License-Identifier: Apache-2.0
// What predictions of published iterations are worth, table by table and together.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/evidence/judge.h"

namespace moesim {

/// How many times as fast one row is as another.
struct JudgedGain {
  std::string slower, faster;
  double simulated = 1, published = 1;
};

struct IterationSummary {
  int rows = 0, predicted = 0;
  bool timed = true;    // whether times count: not where they are outside
  ErrorSummary errors;  // of times; those of rows that something was fitted to, too
  OrderCount order;     // pairs of one table that differ by more than paper_order_margin
  std::vector<JudgedGain> gains = {};
  std::vector<double> memory = {};             // absolute errors of peaks
  OrderCount fits = {};                        // whether rows fit
  std::vector<std::string> lack_routing = {};  // "table/row" that ran balanced
};

IterationSummary iteration_summary(const JudgedTable& table);
/// Of the tables of iterations, or of passes of serving, whose times count.
IterationSummary total_of_iterations(const std::vector<JudgedTable>& tables, bool serving = false);

/// Simulated / published peak - 1; nothing if either is missing.
std::optional<double> memory_error(const JudgedTable& table, std::size_t row);

/// "126 of 126 published iterations: median error 7.6 %, 90 % within 18.0 %; ..."; empty if none
/// ran. `rows`: what they are.
std::string total_words(const IterationSummary& total,
                        const std::string& rows = "published iterations");
/// The largest error of a peak and the verdicts: "4.9 %; fits or not 6 of 6", or "-".
std::string memory_words(const IterationSummary& of);
/// Simulated and published: "1.22 / 1.17" for each, or "-".
std::string gain_words(const IterationSummary& of);

/// Errors of speedups: of all pairs of rows of one model, number of GPUs and release, either way,
/// by "table/row over row". Neither rows that something was fitted to nor rows of one scenario.
std::map<std::string, double> errors_of_speedups(const JudgedTable& table);

}  // namespace moesim
