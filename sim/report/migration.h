// SPDX-License-Identifier: Apache-2.0
// What experts that change places cost, and whether that pays. Defined in docs/metrics.md.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/report/case_report.h"

namespace moesim {

inline constexpr const char* migration_column = "migration";

/// The part of the critical path on which experts change places; "-" if there is none.
Cell migration_cell(const PathSums& path);

/// Lines that start with #, of cases with migration on their paths:
///  - a case that is slower than its static twin, which has the same routing, dispatch, schedule,
///    transport, cluster and fidelity: migration costs more than it gains;
///  - cases without a twin in the list, if migration takes 1 % of their time or more: the change
///    that makes one.
std::string migration_notes(const std::vector<CaseResult>& cases);

}  // namespace moesim
