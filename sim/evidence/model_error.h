// SPDX-License-Identifier: Apache-2.0
// How far off the simulator is, as published figures tell.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace moesim {

/// Simulated / true: what holds 90 % of the figures of another table.
struct ModelError {
  double low = 1, high = 1;

  /// The truth behind a simulated value is from value / high to value / low.
  double least(double value) const { return value / high; }
  double most(double value) const { return value / low; }
};

/// Errors of figures ("simulated / published - 1") by table.
using ErrorsByTable = std::map<std::string, std::vector<double>>;

/// Every table weighs the same, however many figures it has. Of T tables 5 % x T / (T + 1) are
/// beyond each end: the other table is one of T + 1, of which these are known. Throws
/// std::invalid_argument without any.
ModelError model_error(const ErrorsByTable& errors);

/// Errors of ratios of two figures of one table, all pairs both ways.
ErrorsByTable pairs_within(const ErrorsByTable& errors);

/// The stored errors of a papers_state: of times, and of speedups.
struct StoredErrors {
  std::map<std::string, double> absolute, relative, headlines;  // by "table/figure"
  std::set<std::string> right_orders;                           // that a source states
  std::set<std::string> networks = {};                          // between the hosts of iterations
};
/// Throws Error if the text is none.
StoredErrors read_papers_state(const std::string& file, const std::string& text);

ErrorsByTable by_table(const std::map<std::string, double>& errors);

/// Of what was not measured, in place of known: iterations with GPUs by their data sheets
/// (papers/data-sheets-state.json), and exchanges without the fits to their own source
/// (papers/left-out-state.json); by themselves, and in pairs of a table.
struct UnmeasuredErrors {
  ModelError data_sheets, data_sheet_pairs, exchanges, exchange_pairs;
};
/// `data_sheets` and `left_out`: stored errors of such runs.
UnmeasuredErrors unmeasured_errors(const StoredErrors& data_sheets, const StoredErrors& left_out);

struct ShippedModelErrors {
  ModelError times, speedups;
  UnmeasuredErrors unmeasured = {};
  std::set<std::string> networks = {};  // between hosts on which published iterations ran
};
/// Of the states that come with moesim: what published figures of steps, iterations and passes of
/// serving engines are off. Throws Error where there is none.
ShippedModelErrors shipped_errors_of_steps();
ShippedModelErrors shipped_errors_of_iterations();
ShippedModelErrors shipped_errors_of_passes();

}  // namespace moesim
