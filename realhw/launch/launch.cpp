// SPDX-License-Identifier: Apache-2.0
#include "realhw/launch/launch.h"

#include <fmt/format.h>

#include "realhw/launch/environment.h"
#include "realhw/tcp/meet/secret.h"
#include "realhw/tcp/tcp_job.h"
#include "sim/base/error.h"
#ifdef MOESIM_MPI
#include "realhw/mpi/mpi_job.h"
#endif

namespace moesim {
namespace {

#ifdef MOESIM_MPI
constexpr bool has_mpi = true;
std::unique_ptr<Job> mpi_job(int& argc, char**& argv) {
  return std::make_unique<MpiJob>(argc, argv);
}
#else
constexpr bool has_mpi = false;
std::unique_ptr<Job> mpi_job(int&, char**&) {
  throw Error("this moesim-hw was built without MPI", "launch it over TCP (--launcher tcp)");
}
#endif

std::unique_ptr<Job> tcp_job(TcpPlace place, const LaunchFlags& flags) {
  place.limit = std::chrono::duration<double>(flags.limit);
  if (place.ranks > 1) place.secret = secret_from_environment();
  return std::make_unique<TcpJob>(place);
}

LaunchFlags read_flags(int argc, char** argv) {
  LaunchFlags flags;
  CommandLine app("moesim-hw", "");
  app.pass_over_others();
  flags.add_to(app);
  app.parse(argc, argv);
  return flags;
}

}  // namespace

void LaunchFlags::add_to(CommandLine& app) {
  const auto keep_launcher = [this](const std::string& name) {
    if (name != "auto" && name != "mpi" && name != "tcp") {
      throw Error(fmt::format("--launcher {} is not known", name),
                  did_you_mean(name, {"auto", "mpi", "tcp"}));
    }
    launcher = name;
  };
  app.add_option("--launcher", keep_launcher,
                 "how the ranks meet: mpi; tcp: by RANK, WORLD_SIZE, "
                 "MASTER_ADDR and MASTER_PORT, or by Slurm's "
                 "variables; auto (default): what the environment says");
  app.add_option("--join-timeout", limit, "seconds until all ranks have come (default 30)")
      .range(0.1, 1e6);
}

std::unique_ptr<Job> launch(int& argc, char**& argv) {
  const LaunchFlags flags = read_flags(argc, argv);
  if (flags.launcher == "mpi") return mpi_job(argc, argv);
  const Starter by = starter();
  if (by == Starter::torchrun) return tcp_job(torchrun_place(), flags);
  if (by == Starter::slurm) return tcp_job(slurm_place(), flags);
  if (flags.launcher == "tcp") return tcp_job(torchrun_place(), flags);
  const bool alone = by == Starter::nobody && !has_mpi;  // MPI knows starters that we do not
  return alone ? tcp_job({}, flags) : mpi_job(argc, argv);
}

}  // namespace moesim
