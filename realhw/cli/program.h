// SPDX-License-Identifier: Apache-2.0
// All of moesim-hw that comes after its ranks have met.
#pragma once

#include <functional>

#include "realhw/job/job.h"

namespace moesim {

/// Reads the command line and runs its command; all ranks together. Returns the exit code. Calls
/// `end_job` when no other rank is needed any more, after which the job may be gone. Throws what
/// fails on only one rank.
int run_moesim_hw(int argc, char** argv, Job& job, const std::function<void()>& end_job);

}  // namespace moesim
