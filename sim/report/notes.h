// SPDX-License-Identifier: Apache-2.0
// What a reader must know of single cases of a comparison, in lines below the table.
#pragma once

#include <string>
#include <vector>

#include "sim/report/case_report.h"

namespace moesim {

/// The notes of the cases as lines that start with #: a note once, with the policies that it is of,
/// and the topology where not all cases of a policy have it.
std::string notes_below(const std::vector<CaseResult>& cases);

}  // namespace moesim
