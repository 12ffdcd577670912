// SPDX-License-Identifier: Apache-2.0
// Profiles of whatever profiler: the file says which.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/profile/clocks.h"
#include "sim/profile/kernel_table.h"
#include "sim/profile/profile.h"

namespace moesim {

struct ReadProfile {
  Profile profile;
  ClockFit clocks;
};

/// All files are of one run; their clocks are aligned. Throws Error with the name of a format that
/// is known and not read.
ReadProfile read_profile(const std::vector<std::string>& files, const KernelTable& table,
                         const std::function<void(double)>& progress);

}  // namespace moesim
