// SPDX-License-Identifier: Apache-2.0
// SQLite exports of Nsight Systems: `nsys export --type sqlite`.
#pragma once

#include <string>

#include "sim/profile/kernel_table.h"
#include "sim/profile/profile.h"

namespace moesim {

/// Adds a rank per GPU. Throws Error for a database without kernels, or a damaged one.
void read_nsys(const std::string& path, const KernelTable& table, Profile& profile);

}  // namespace moesim
