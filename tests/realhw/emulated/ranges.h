// SPDX-License-Identifier: Apache-2.0
// Ranges that a profiler would show, and the launches in them.
#pragma once

#include <string>
#include <vector>

namespace moesim::emulated {

int begin_range(const char* name);  // the depth before
int end_range();                    // the depth after
/// The innermost range of this thread; empty outside of all.
const std::string& current_range();

/// Names that ranges had since the last call, over all threads.
std::vector<std::string> take_ranges();

}  // namespace moesim::emulated
