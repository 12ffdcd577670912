// SPDX-License-Identifier: Apache-2.0
// Who started this process, read from its environment.
#pragma once

#include <optional>
#include <string>

#include "realhw/tcp/meet/rendezvous.h"

namespace moesim {

/// A variable, nothing when it is unset or empty.
std::optional<std::string> variable(const char* name);
/// An integer variable; nothing if it is unset. Throws Error unless it is an integer from `least`.
std::optional<int> integer_variable(const char* name, int least = 0);
/// The same, and Error when it is not set.
int required_number(const char* name, int least = 0);

enum class Starter {
  nobody,
  mpi,       // mpirun or srun --mpi: MPI_Init finds the other ranks
  torchrun,  // RANK and WORLD_SIZE
  slurm,     // srun without MPI
};
Starter starter();

/// By RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the next port if torchrun's store uses that
/// one. Throws Error naming what is missing.
TcpPlace torchrun_place();
/// By srun's variables; MASTER_ADDR and MASTER_PORT, if set, come before the first host of the step
/// and a port made of the job's number. Throws Error naming what is missing.
TcpPlace slurm_place();

/// The first host of Slurm's "node[07-09,11],login".
std::string first_host(const std::string& hosts);

}  // namespace moesim
