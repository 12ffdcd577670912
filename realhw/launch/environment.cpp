// SPDX-License-Identifier: Apache-2.0
#include "realhw/launch/environment.h"

#include <fmt/format.h>

#include <cstdlib>

#include "sim/base/error.h"
#include "sim/base/read_number.h"

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

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<int> integer_variable(const char* name, int least) {
  const auto text = variable(name);
  if (!text) return std::nullopt;
  const auto number = parse_integer<int>(*text);
  if (!number || *number < least) {
    throw Error(fmt::format("{}={}: expected a whole number from {}", name, *text, least));
  }
  return number;
}

int required_number(const char* name, int least) {
  const auto number = integer_variable(name, least);
  if (!number) {
    throw Error(fmt::format("{} is not set", name),
                "a launch over TCP takes RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
  }
  return *number;
}

Starter starter() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK"}) {
    if (variable(name)) return Starter::mpi;
  }
  if (variable("RANK") && variable("WORLD_SIZE")) return Starter::torchrun;
  for (const char* name : {"PMI_RANK", "PMIX_RANK"}) {
    if (variable(name)) return Starter::mpi;
  }
  // A batch script has a SLURM_PROCID, too, but it is not a step of srun.
  return variable("SLURM_PROCID") && variable("SLURM_STEP_ID") ? Starter::slurm : Starter::nobody;
}

TcpPlace torchrun_place() {
  TcpPlace place;
  place.rank = required_number("RANK");
  place.ranks = required_number("WORLD_SIZE", 1);
  if (place.rank >= place.ranks) {
    throw Error(
        fmt::format("RANK={} of WORLD_SIZE={}: ranks count from 0", place.rank, place.ranks));
  }
  if (place.ranks == 1) return place;
  const auto host = variable("MASTER_ADDR");
  if (!host) throw Error("MASTER_ADDR is not set", "it is the host of rank 0");
  place.host = *host;
  place.port = required_number("MASTER_PORT", 1);
  const bool taken = variable("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
  if (taken) ++place.port;
  if (place.port > 65535) {
    throw Error(fmt::format("MASTER_PORT={}: the port {} is above 65535",
                            required_number("MASTER_PORT"), place.port));
  }
  return place;
}

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
