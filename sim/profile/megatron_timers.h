// SPDX-License-Identifier: Apache-2.0
// Logs of Megatron-LM: times of iterations, and its timers (--timing-log-level, log option minmax).
#pragma once

#include <string>

#include "sim/profile/profile.h"

namespace moesim {

/// Adds a rank without kernels that has the iterations as steps, and the timers. Throws Error if
/// the log has no iteration.
void read_megatron_timers(const std::string& path, Profile& profile);

}  // namespace moesim
