// SPDX-License-Identifier: Apache-2.0
// Runs the scenarios of a grid that have no result yet, in one process or in all that a launcher of
// a cluster (mpirun, srun) has started together.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "sim/sweep/grid.h"

namespace moesim {

struct Launch {
  std::string id;  // unique to the launch, even if its job is requeued
  int rank = 0, size = 1;
};

/// What Open MPI's launcher (PMIx) or Slurm's srun put into the environment; nothing if this is the
/// only process. The processes need no MPI library: they only share a folder.
std::optional<Launch> launch_of_environment();

/// Workers of this process: as many as asked; for 0 all cores, or one in a launch.
int workers_of(const std::optional<Launch>& launch, int asked);

/// One of several equal parts of a sweep.
struct SweepShard {
  int number = 0, of = 1;
};

struct SweepOptions {
  std::string file;                   // of the results
  std::string version;                // of the program
  int workers = 1;                    // processes of this one
  SweepShard shard = {};              // of > 1: every of-th unit, into a part file
  std::optional<Launch> launch = {};  // takes units with others, into a part file of its own
  bool again = false;                 // rows of other inputs than now are run again
  std::function<bool()> stop = [] { return false; };  // asked several times a second
};

struct SweepEnd {
  std::int64_t scenarios = 0;  // that this process had to see to, or all of a launch
  std::int64_t before = 0;     // of them with a result from before
  std::int64_t run = 0;        // now, by this process
  std::int64_t again = 0;      // rows of other inputs or another version that were removed first
  bool stopped = false;
  std::map<std::string, std::int64_t> states = {};   // of all rows of the file or part
  std::map<std::string, std::int64_t> reasons = {};  // of those without figures
  std::string file = {};                             // that was written
};

/// Every row is in the file once, whatever ended this process or its workers before: a row is
/// stored as soon as it is there. Throws Error, also for rows of other inputs or another version of
/// the program, which no figure of this sweep is compared with.
SweepEnd run_sweep(const SweepGrid& grid, const SweepOptions& options);

/// Takes all part files into the sweep's file. Throws Error if some are being written, or hold rows
/// of other inputs or another version than now.
SweepEnd merge_sweep(const SweepGrid& grid, const std::string& file, const std::string& version);

}  // namespace moesim
