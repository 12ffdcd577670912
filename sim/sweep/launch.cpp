// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/launch.h"

#include <fmt/format.h>

#include <cstdlib>

#include "sim/run/worker_count.h"

namespace moesim {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::optional<Launch> launch_by(const std::string& id, const char* rank, const char* size) {
  const std::string r = variable(rank), n = variable(size);
  if (id.empty() || r.empty() || n.empty()) return std::nullopt;
  Launch launch{id, std::atoi(r.c_str()), std::atoi(n.c_str())};
  for (char& c : launch.id) {
    if (c == '/' || c == ' ') c = '_';
  }
  if (launch.size < 2 || launch.rank < 0 || launch.rank >= launch.size) return std::nullopt;
  return launch;
}

}  // namespace

std::optional<Launch> launch_of_environment() {
  const std::string job = variable("SLURM_JOB_ID"), step = variable("SLURM_STEP_ID");
  // Outside srun there is no step: the script of a job is one process whatever tasks the job may
  // have.
  const std::string of_srun =
      job.empty() || step.empty()
          ? ""
          : fmt::format("slurm-{}.{}.{}", job, step, variable("SLURM_RESTART_COUNT"));
  if (const auto launch =
          launch_by(variable("PMIX_NAMESPACE"), "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    return launch;
  }
  return launch_by(of_srun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
}

int workers_of(const std::optional<Launch>& launch, int asked) {
  return launch && asked == 0 ? 1 : worker_count(asked);
}

}  // namespace moesim
