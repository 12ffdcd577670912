// SPDX-License-Identifier: Apache-2.0
// What stands around the table of an advice.
#pragma once

#include <cstdint>
#include <string>

#include "sim/sweep/grid.h"

namespace moesim {

/// What compare prints above its table, of all clusters and policies of the grid, and names the
/// candidate that the rest describes. Empty if the first candidate cannot be opened.
std::string advice_header(const SweepGrid& grid, const std::string& version);

/// What to do about a candidate whose inputs cannot be opened; empty if they can.
std::string hint_about(const SweepGrid& grid, std::int64_t candidate);

/// A line for each axis of numbers, three or more, if the candidate has the least or the largest.
std::string edges_of_ranges(const SweepGrid& grid, std::int64_t candidate);

/// How far the search came.
struct SearchProgress {
  bool interrupted = false, over = false;  // by a signal; the time is
  std::int64_t known = 0, all = 0;         // candidates
};
/// The line that says why it ended before its end; empty if it did not.
std::string why_ended(const SearchProgress& progress);

}  // namespace moesim
