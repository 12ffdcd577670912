// SPDX-License-Identifier: Apache-2.0
// Runs independent jobs in child processes: every job starts from the same state whatever ran
// before it, and one that dies takes no others with it. Results come back as values.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/stop_signals.h"
#include "sim/base/wire.h"
#include "sim/run/jobs_heard.h"

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

/// What a caller hears while jobs run, in its own process.
template <class Result>
struct JobEvents {
  /// Called for a job that ended with a result; in the order in which they end. What it throws ends
  /// all.
  std::function<void(std::size_t job, const Result& result)> finished = nullptr;
  JobsHeard heard = {};
};

template <class Result>
struct JobResults {
  std::vector<std::optional<Result>> results;  // by job; none of the jobs that a signal left undone
  int signal = 0;  // that ended the jobs early: SIGINT, SIGTERM; 0: none
};

/// The same of results that are bytes already. Returns the signal that ended the jobs early, else
/// 0.
int run_byte_jobs(const std::vector<WorkerJob<std::string>>& jobs, int workers,
                  const std::function<void(std::size_t job, std::string_view bytes)>& finished,
                  const JobsHeard& heard);

/// Runs the jobs, at most `workers` at a time (0: in this process, one after the other, as they
/// are). After SIGINT or SIGTERM the jobs that still run are
/// killed, and the ended ones keep their results. Once all have ended, the first failed job (in job
/// order) is thrown again under its name: Unsuitable and Error with all their diagnostics, anything
/// else as std::runtime_error. Progress lines go to stderr when it is a terminal.
template <class Result>
JobResults<Result> run_jobs(const std::vector<WorkerJob<Result>>& jobs, int workers,
                            const JobEvents<Result>& events) {
  JobResults<Result> all;
  all.results.resize(jobs.size());
  if (workers == 0) {
    for (std::size_t job = 0; job < jobs.size(); ++job) {
      all.results[job] = jobs[job].run(no_progress);
      if (events.finished) events.finished(job, *all.results[job]);
    }
    return all;
  }
  std::vector<WorkerJob<std::string>> byte_jobs;
  for (const WorkerJob<Result>& job : jobs) {
    byte_jobs.push_back(
        {job.name, [&job](const JobProgress& progress) { return to_bytes(job.run(progress)); }});
  }
  all.signal = run_byte_jobs(
      byte_jobs, workers,
      [&](std::size_t job, std::string_view bytes) {
        all.results[job] = from_bytes<Result>(bytes);
        if (events.finished) events.finished(job, *all.results[job]);
      },
      events.heard);
  return all;
}

/// All results in job order; throws Interrupted if a signal ended the jobs early.
template <class Result>
std::vector<Result> run_jobs(const std::vector<WorkerJob<Result>>& jobs, int workers) {
  JobResults<Result> all = run_jobs(jobs, workers, JobEvents<Result>());
  if (all.signal != 0) throw Interrupted(all.signal, "interrupted; nothing was written");
  std::vector<Result> results;
  for (std::optional<Result>& result : all.results) results.push_back(std::move(*result));
  return results;
}

}  // namespace moesim
