// SPDX-License-Identifier: Apache-2.0
// Plans over MPI on CPUs.
#pragma once

#include <memory>

#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"
#include "sim/base/types.h"

namespace moesim {

/// How an exchange goes over MPI.
enum class Transport {
  p2p,        // one MPI_Isend and one MPI_Irecv per peer
  alltoallv,  // one MPI_Ialltoallv of its participants
};

/// The job must be one of MPI and outlive it. A run in which nothing ends for `timeout` throws.
std::unique_ptr<HardwareBackend> make_mpi_backend(Job& job, Transport transport, Seconds timeout);

}  // namespace moesim
