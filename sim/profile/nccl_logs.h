// SPDX-License-Identifier: Apache-2.0
// What NCCL and PyTorch record of collectives only: times, sizes and groups, no other kernels.
#pragma once

#include <string>

#include "sim/profile/kernel_table.h"
#include "sim/profile/profile.h"

namespace moesim {

/// JSON dumps of PyTorch's flight recorder, a rank each. Entries that did not end are left out,
/// with a note.
void read_flight_recorder(const std::string& path, const KernelTable& table, Profile& profile);

/// JSON lines of NCCL's inspector plugin.
void read_nccl_inspector(const std::string& path, const KernelTable& table, Profile& profile);

/// The trace of NCCL's example profiler plugin: COLL and P2P events.
void read_nccl_profiler(const std::string& path, const KernelTable& table, Profile& profile);

}  // namespace moesim
