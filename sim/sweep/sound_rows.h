// SPDX-License-Identifier: Apache-2.0
// Rows of a sweep's file that something else than a sweep has changed.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep/store.h"

namespace moesim {

/// Throws Error unless every row has one of the three states.
void check_states(sqlite3* db, const std::string& path);

/// Throws Error unless the rows that are 'ok' have finite numbers as figures, and no times or bytes
/// below zero.
void check_figures(const StoredRows& rows, const std::vector<std::string>& axes,
                   const std::string& path);

}  // namespace moesim
