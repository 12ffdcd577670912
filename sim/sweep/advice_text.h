// SPDX-License-Identifier: Apache-2.0
// What stands around the table of an advice: lines about its candidates, and why others cannot be,
// told once for all that differ only in numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/sweep/break_even.h"
#include "sim/sweep/candidates.h"
#include "sim/sweep/grid.h"
#include "sim/sweep/row.h"

namespace moesim {

/// Reasons that say the same of other numbers.
struct SharedReason {
  int count = 0;
  std::string example;         // the one with the least shortfall of memory, else the first
  bool varies = false;         // others have other numbers
  std::int64_t candidate = 0;  // whose example it is
  /// "3 cannot be: WHY", "3 cannot be, such as: WHY".
  std::string text() const;
};

/// The most frequent first. Details in parentheses do not tell reasons apart.
std::vector<SharedReason> shared_reasons(const std::map<std::int64_t, SweepRow>& rows);

/// What is to be known of them.
std::string notes_of(const std::vector<const SweepRow*>& rows);

/// The expert-parallel degrees, if nothing but policies differs in them.
std::string degrees_of(const SweepGrid& grid, const std::vector<const SweepRow*>& rows);

/// "with nic.bandwidth 2.00 times as now".
std::string words_of(const std::vector<ResourceFactor>& found);

/// Throws Error: why none of them is an answer. `barred`: some were simulated, but may not win.
[[noreturn]] void throw_reasons(const Candidates& candidates, bool barred);

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
