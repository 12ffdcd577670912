// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "realhw/launch/environment.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

/// Below the ports that Linux gives to outgoing connections; another one for most jobs and steps.
int port_of_step() {
  constexpr int first_port = 16384, ports = 16384;
  const int job = integer_variable("SLURM_JOB_ID").value_or(0);
  const int step = integer_variable("SLURM_STEP_ID").value_or(0);
  return first_port + (job % ports * 31 + step % ports) % ports;
}

std::string host_of_first_rank() {
  const int nodes = integer_variable("SLURM_STEP_NUM_NODES")
                        .value_or(integer_variable("SLURM_NNODES").value_or(0));
  if (nodes == 1) return "127.0.0.1";
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (const auto hosts = variable(name)) return first_host(*hosts);
  }
  throw Error("neither MASTER_ADDR nor SLURM_STEP_NODELIST is set", "start ranks by srun");
}

}  // namespace

std::string first_host(const std::string& hosts) {
  std::string host;
  for (std::size_t at = 0; at < hosts.size() && hosts[at] != ','; ++at) {
    if (hosts[at] != '[') {
      host += hosts[at];
      continue;
    }
    const std::size_t end = hosts.find_first_of(",-]", at);
    host += hosts.substr(at + 1, end - at - 1);
    at = hosts.find(']', at);
    if (at == std::string::npos) break;
  }
  return host;
}

TcpPlace slurm_place() {
  TcpPlace place;
  place.rank = required_number("SLURM_PROCID");
  const auto tasks = integer_variable("SLURM_STEP_NUM_TASKS", 1);
  place.ranks = tasks ? *tasks : required_number("SLURM_NTASKS", 1);
  if (place.rank >= place.ranks) {
    throw Error(fmt::format("SLURM_PROCID={} of {} tasks", place.rank, place.ranks));
  }
  if (place.ranks == 1) return place;
  const auto host = variable("MASTER_ADDR");
  place.host = host ? *host : host_of_first_rank();
  place.port = integer_variable("MASTER_PORT", 1).value_or(port_of_step());
  if (place.port > 65535) throw Error(fmt::format("MASTER_PORT={} is above 65535", place.port));
  return place;
}

}  // namespace moesim
