// SPDX-License-Identifier: Apache-2.0
// Runs independent jobs in child processes: SimGrid has one engine per process, and every job
// starts from the same state whatever ran before it.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace moesim {

/// Reports a child's progress (step of steps) to its parent.
using Progress = std::function<void(int step, int steps)>;

struct WorkerJob {
  std::string name;  // for progress lines
  std::function<std::string(const Progress&)> run;
};

/// Runs the jobs, at most `workers` at a time, and returns their results in job order. The first
/// failed job (in job order) is thrown again: Error as Error, anything else as std::runtime_error.
/// Progress lines go to stderr when it is a terminal.
std::vector<std::string> run_jobs(const std::vector<WorkerJob>& jobs, int workers);

}  // namespace moesim
