// SPDX-License-Identifier: Apache-2.0
// Rows that a sweep may not mix: of files that have changed since, or of another program.
#pragma once

#include <map>
#include <set>
#include <string>

#include "sim/base/error.h"
#include "sim/sweep/unit.h"

namespace moesim {

/// Rows of a file whose inputs or program are not those of now.
struct StaleRows {
  std::set<std::int64_t> ids = {};
  std::map<std::string, std::int64_t> changed = {};  // rows by what is another one now
  bool unusable = false;                             // some input is gone or has a mistake

  /// Names what has changed.
  Error error(const std::string& file, const std::string& hint) const;
};

/// Looks at every row of a sweep's file or part. Throws Error for figures that are damaged.
StaleRows stale_rows(const std::string& file, const SweepGrid& grid, UnitRunner& runner);

}  // namespace moesim
