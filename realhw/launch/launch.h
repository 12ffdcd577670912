// SPDX-License-Identifier: Apache-2.0
// The job that a process belongs to: over MPI or over TCP, by flags and environment.
#pragma once

#include <memory>
#include <string>

#include "realhw/job/job.h"
#include "sim/flags/command_line.h"

namespace moesim {

/// Flags of the whole program.
struct LaunchFlags {
  void add_to(CommandLine& app);

  std::string launcher = "auto";
  double limit = 30;  // seconds until all ranks have come
};

/// Joins the job that the command line (its other flags are passed over) and the environment name;
/// a single process is a job, too. Throws Error for what is set wrong and std::runtime_error when
/// the ranks do not meet.
std::unique_ptr<Job> launch(int& argc, char**& argv);

}  // namespace moesim
