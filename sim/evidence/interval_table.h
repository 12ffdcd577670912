// SPDX-License-Identifier: Apache-2.0
// compare --intervals: how sure times and speedups are, and what would make them surer.
#pragma once

#include <vector>

#include "sim/evidence/grounds.h"
#include "sim/evidence/model_error.h"
#include "sim/print/table.h"
#include "sim/report/case_report.h"
#include "sim/scenario/scenario.h"

namespace moesim {

/// Keeps the intervals of each case that ran, for documents and reports. One step has none.
/// `lacks`: of every case, what was not measured; without it all was.
void add_intervals(std::vector<CaseResult>& cases, const ShippedModelErrors& errors,
                   const std::vector<Unmeasured>& lacks = {});
/// The same, by what the inputs rest on.
void add_intervals(const Scenario& scenario, const Inputs& inputs, std::vector<CaseResult>& cases,
                   const ShippedModelErrors& errors);

/// Of the kind of steps that a scenario has. Throws Error if there is none.
ShippedModelErrors shipped_errors_of(const Scenario& scenario);

/// The same as add_intervals() if the errors are known, as reports and pages have it; else nothing.
void add_known_intervals(const Scenario& scenario, const Inputs& inputs,
                         std::vector<CaseResult>& cases);

/// One line per case that ran; speedups over the baselines of sim/report/compared.h. One step or
/// iteration has no sampling: only errors of the simulator make its intervals.
Printout interval_table(const std::vector<CaseResult>& cases, const ShippedModelErrors& errors,
                        const std::vector<Unmeasured>& lacks = {});

}  // namespace moesim
