// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "realhw/cli/commands.h"
#include "realhw/mpi/mpi_backend.h"
#ifdef MOESIM_MPI
#include "realhw/mpi/mpi_job.h"
#endif

namespace moesim {

void BackendFlags::add_to(CLI::App& command) {
  const auto keep_transport = [this](const std::string& name) {
    if (name != "p2p" && name != "alltoallv") {
      throw Error(fmt::format("--transport {} is not known", name),
                  did_you_mean(name, {"p2p", "alltoallv"}));
    }
    transport = name;
  };
  command.add_option_function<std::string>(
      "--transport", keep_transport,
      "p2p (default): a send and a receive per peer; or alltoallv: one MPI_Ialltoallv");
  command
      .add_option("--timeout", timeout, "seconds without progress that end the run (default 30)")
      ->check(CLI::Range(1e-6, 1e9));
}

std::unique_ptr<HardwareBackend> BackendFlags::open(Job& job) const {
#ifdef MOESIM_MPI
  if (dynamic_cast<MpiJob*>(&job) != nullptr) {
    return make_mpi_backend(job, transport == "p2p" ? Transport::p2p : Transport::alltoallv,
                            Seconds(timeout));
  }
#endif
  throw Error(
      fmt::format("the backend 'mpi' needs ranks that MPI joins; these were by {}", job.launcher()),
      "start them by mpirun or srun --mpi, with a moesim-hw that was built with MPI");
}

}  // namespace moesim
