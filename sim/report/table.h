// SPDX-License-Identifier: Apache-2.0
// The tables that a person reads.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/case_report.h"

namespace moesim {

/// The cases, one line per case, in blocks: times and what binds them; what is moved and held;
/// time bounds, if they are asked for (`bounds`) and there.
/// Lines that start with # follow: what was not run, and notes on single cases. The first policy of
/// each topology and fidelity is the baseline of the speedup column.
Printout comparison_table(const std::vector<CaseResult>& cases, bool bounds = false);

/// Without rows: all columns that the table of MoE layers can have; of iterations, or of passes of
/// serving if it `serves`, whose memory has these parts.
Table head_of_layers();
Table head_of_iterations(bool serves, const std::vector<std::string>& memory);

/// One case that was run, per layer.
Table layer_table(const CaseResult& c);
/// A line that starts with #: what of an iteration has no layer of that table; else empty.
std::string layer_note(const CaseResult& c);

}  // namespace moesim
