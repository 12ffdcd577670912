// SPDX-License-Identifier: Apache-2.0
// Processes that a launcher of a cluster (mpirun, srun) has started together.
#pragma once

#include <optional>
#include <string>

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

}  // namespace moesim
