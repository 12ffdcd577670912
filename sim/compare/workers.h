// SPDX-License-Identifier: Apache-2.0
// Runs independent jobs in child processes: SimGrid has one engine per process, and every job
// starts from the same state whatever ran before it. Results come back as values.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/base/wire.h"

namespace moesim {

/// Reports a child's progress to its parent.
struct JobProgress {
  std::function<void(double step, int steps)> at;
  std::function<void(const std::string&)> note;  // for standard error

  void operator()(double step, int steps) const { at(step, steps); }
};

inline const JobProgress no_progress{[](double, int) {}, [](const std::string&) {}};

template <class Result>
struct WorkerJob {
  std::string name;  // for progress lines and errors
  std::function<Result(const JobProgress&)> run;
};

/// run_jobs of results that are bytes already.
std::vector<std::string> run_byte_jobs(const std::vector<WorkerJob<std::string>>& jobs,
                                       int workers);

/// Runs the jobs, at most `workers` at a time (0: in this process, one after the other), and
/// returns their results in job order. The first failed job (in job order) is thrown again under
/// its name: Unsuitable and Error with all their diagnostics, anything else as std::runtime_error.
/// Progress lines go to stderr when it is a terminal.
template <class Result>
std::vector<Result> run_jobs(const std::vector<WorkerJob<Result>>& jobs, int workers) {
  std::vector<Result> results;
  if (workers == 0) {
    for (const WorkerJob<Result>& job : jobs) results.push_back(job.run(no_progress));
    return results;
  }
  std::vector<WorkerJob<std::string>> byte_jobs;
  for (const WorkerJob<Result>& job : jobs) {
    byte_jobs.push_back(
        {job.name, [&job](const JobProgress& progress) { return to_bytes(job.run(progress)); }});
  }
  for (const std::string& bytes : run_byte_jobs(byte_jobs, workers)) {
    results.push_back(from_bytes<Result>(bytes));
  }
  return results;
}

}  // namespace moesim
