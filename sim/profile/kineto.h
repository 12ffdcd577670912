// SPDX-License-Identifier: Apache-2.0
// Traces of PyTorch's profiler (Kineto: CUPTI and roctracer), and what moesim's --timeline writes,
// which is in the same form.
#pragma once

#include <functional>
#include <string>

#include "sim/profile/kernel_table.h"
#include "sim/profile/profile.h"

namespace moesim {

/// Adds the ranks of a file. A file without a rank gets the next number.
/// Throws Error for what is not such a trace, for traces of MTIA and of other devices that are not
/// read, and for one that is cut short inside an event.
void read_kineto(const std::string& path, const KernelTable& table,
                 const std::function<void(double)>& progress, Profile& profile);

}  // namespace moesim
