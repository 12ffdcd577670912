// SPDX-License-Identifier: Apache-2.0
// The tables that a person reads.
#pragma once

#include <string>
#include <vector>

#include "sim/report/case_report.h"

namespace moesim {

/// Columns of text, aligned: the first `left` columns to the left, the others to the right.
std::string align(const std::vector<std::vector<std::string>>& rows, std::size_t left);

/// The cases in two tables, one line per case: times and what binds them; what is moved and held.
/// Lines that start with # follow: what was not run, and notes on single cases. The first policy of
/// each topology and fidelity is the baseline of the speedup column.
std::string comparison_table(const std::vector<CaseResult>& cases);

/// One case that was run, per layer.
std::string layer_table(const CaseResult& c);

}  // namespace moesim
