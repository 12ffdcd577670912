// SPDX-License-Identifier: Apache-2.0
// A sweep as an array of Slurm jobs.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace moesim {

/// What is submitted, each as the words of a command.
struct SlurmJobs {
  std::vector<std::string> array, merge;  // `merge` lacks the number of the array's job
};

/// `command`: the words of the sweep without --slurm. `flags`: those of sbatch, "--partition=a
/// --array=0-15%4": the array says how many shards there are (16 without it). A task that is
/// requeued continues with its part file. Throws Error for an array that does not count from 0 on.
SlurmJobs slurm_jobs(const std::vector<std::string>& command, const std::string& file,
                     const std::string& flags);

/// Submits them; returns the numbers of the array's job and of the job that merges. Throws
/// std::runtime_error.
std::pair<std::string, std::string> submit(const SlurmJobs& jobs);

/// The words of a command line but for --slurm and its value, the first as this program's absolute
/// path.
std::vector<std::string> without_slurm(const std::vector<std::string>& words);

}  // namespace moesim
