// SPDX-License-Identifier: Apache-2.0
// Lines of an advice about its candidates.
#pragma once

#include <string>
#include <vector>

#include "sim/sweep/break_even.h"
#include "sim/sweep/candidates.h"

namespace moesim {

/// What is to be known of them.
std::string notes_of(const std::vector<const SweepRow*>& rows);

/// The expert-parallel degrees, if nothing but policies differs in them.
std::string degrees_of(const SweepGrid& grid, const std::vector<const SweepRow*>& rows);

/// "with nic.bandwidth 2.00 times as now".
std::string words_of(const std::vector<BreakEven>& found);

/// Throws Error: why none of them is an answer. `barred`: some were simulated, but may not win.
[[noreturn]] void throw_reasons(const Candidates& candidates, bool barred);

}  // namespace moesim
