// SPDX-License-Identifier: Apache-2.0
// Plans over MPI on CPUs.
#pragma once

#include <memory>
#include <optional>

#include "realhw/core/step_runner.h"
#include "realhw/job/job.h"
#include "realhw/program/fault.h"
#include "sim/base/types.h"

namespace moesim {

/// How an exchange goes over MPI.
enum class MpiTransport {
  p2p,        // one MPI_Isend and one MPI_Irecv per peer
  alltoallv,  // one MPI_Ialltoallv of its participants
};

struct MpiOptions {
  MpiTransport transport = MpiTransport::p2p;
  /// An exchange begins when its last participant has joined, and ends for all together, as the
  /// plan has it and the simulator does; else ranks leave and run ahead when their own part is
  /// done.
  bool together = false;
  Seconds timeout{30};         // a run in which nothing ends for so long throws
  std::optional<Fault> fault;  // a drill
};

/// The job must be one of MPI and outlive it.
std::unique_ptr<HardwareBackend> make_mpi_backend(Job& job, const MpiOptions& options);

}  // namespace moesim
