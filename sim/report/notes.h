// SPDX-License-Identifier: Apache-2.0
// Lines below a comparison's table: what a reader must know of single cases before trusting them,
// such as what they lose (sim/plan/loss.h).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "sim/plan/loss.h"
#include "sim/print/table.h"
#include "sim/report/case_report.h"

namespace moesim {

/// Loss::text, "-" if nothing is lost.
Cell lossy_cell(const Loss& loss);
/// Adds `lossy`, Loss::text; if it is not empty also `loss`, the figures behind it.
void add_loss(nlohmann::ordered_json& json, const Loss& loss);

/// Sentences whose subject is the policy: that it cannot run, if so, and its notes.
std::vector<std::string> notes_of(const CaseResult& c);

/// The notes of the cases as lines that start with #. Each note is there once, with its policies,
/// and with the topology if not all cases of a policy have it.
std::string notes_below(const std::vector<CaseResult>& cases);

}  // namespace moesim
