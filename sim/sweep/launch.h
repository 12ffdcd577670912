// SPDX-License-Identifier: Apache-2.0
// Processes that a launcher of a cluster (mpirun, srun) has started together.
#pragma once

#include <optional>
#include <string>

namespace moesim {

struct Launch {
  std::string id;  // of the launch: no other one has it, not even a requeued job
  int rank = 0, size = 1;
};

/// What the launcher has put into the environment; nothing if this is the only process. Open MPI
/// and whatever speaks PMIx, and Slurm's srun. The processes need no MPI library: what they share
/// is a folder.
std::optional<Launch> launch_of_environment();

/// How many to use of those asked for; 0: all cores, or one for each process of a launch.
int workers_of(const std::optional<Launch>& launch, int asked);

}  // namespace moesim
