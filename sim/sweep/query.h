// SPDX-License-Identifier: Apache-2.0
// Questions to the file of a sweep.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/sweep/store.h"

namespace moesim {

struct SweepQuery {
  std::string where = {};     // SQL; columns may stand without quotes
  std::string by = {};        // the figure; "-" before it: more is better. Empty: the time
  std::string baseline = {};  // "policy=megatron": adds the column `speedup` over it
  int top = 0;                // only the best ones; 0: all
  std::vector<std::string> pareto = {};  // no other row is better in all of these figures
  std::vector<std::string> group =
      {};  // columns: number, least, mean and largest figure of each group
  std::vector<std::string> pivot =
      {};                // two columns: rows and columns of a table of the best figure
  bool lossy = false;    // lossy cases are among the best, too (winners.h)
  bool not_run = false;  // instead: what has no figures, and why
};

/// Throws Error for columns that there are not.
Printout answer(const SweepReader& reader, const SweepQuery& query);

/// Rows that have figures, in the order of their ids. Throws Error.
StoredRows rows_where(const SweepReader& reader, const std::string& where,
                      const std::string& state = "= 'ok'");

/// Where a column stands. Throws Error with what was probably meant.
std::size_t column_of(const StoredRows& rows, const std::string& name);

/// `step_s`, or `iteration_s` of iterations.
std::string time_column(const StoredRows& rows);

/// The places of rows that no other row is at least as good as in all figures, and better in one;
/// rows that lack one of the figures are left out.
std::vector<std::size_t> pareto_front(const StoredRows& rows,
                                      const std::vector<std::string>& figures);

}  // namespace moesim
