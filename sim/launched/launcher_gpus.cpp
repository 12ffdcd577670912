// SPDX-License-Identifier: Apache-2.0
// How many GPUs the launchers start.
#include <fmt/format.h>

#include <array>

#include "sim/base/read_number.h"
#include "sim/launched/batch_lines.h"
#include "sim/launched/shell_expansion.h"
#include "sim/launched/software_tables.h"

namespace moesim {
namespace {

/// The number of the first of these flags that has one; 0 if none does. "gpu:h100:8" is 8.
int launcher_count(const LaunchFile& launch, std::initializer_list<const char*> names,
                   std::string& unknown) {
  for (const char* name : names) {
    const NamedArgument* argument = launch.launcher.find(name);
    if (argument == nullptr || argument->values.empty()) continue;
    const std::string& value = argument->values.front();
    const TextPart count = gpu_count_in(value);
    const auto number = parse_integer<int>(value.substr(count.begin, count.end - count.begin));
    if (number && *number > 0) return *number;
    if (unknown.empty()) unknown = argument->written;
  }
  return 0;
}

}  // namespace

int gpus_of_launcher(const LaunchFile& launch, Launched& launched) {
  if (const auto world = count_of(launch, "world-size", 0)) return static_cast<int>(world);
  std::string unknown;
  const auto stated = [&](const char* name) {
    const NamedArgument* argument = launch.arguments.find(name);
    return argument == nullptr ? 0 : parse_integer<int>(argument->text()).value_or(0);
  };
  if (const int all = launcher_count(launch, {"num-processes"}, unknown); all > 0) return all;
  int nodes = stated("num-nodes"), per_node = stated("devices");
  if (nodes == 0) {
    nodes = launcher_count(launch, {"nnodes", "num-nodes", "num-machines", "nodes", "N"}, unknown);
  }
  const bool torchrun = launch.launcher.has("nproc-per-node");
  const bool deepspeed = launch.launcher.has("num-gpus");
  if (per_node == 0) {
    per_node = launcher_count(launch, {"nproc-per-node", "num-gpus"}, unknown);
  }
  // A task of Slurm is one launcher, which starts a process for each GPU.
  const bool tasks_are_gpus = !torchrun && !deepspeed && !launch.launcher.has("num-machines");
  if (per_node == 0 && tasks_are_gpus) {
    per_node = launcher_count(launch, {"ntasks-per-node"}, unknown);
  }
  if (per_node == 0) {
    per_node = launcher_count(launch, {"gpus-per-node", "gres", "npernode"}, unknown);
  }
  const bool one_node = (torchrun && !launch.launcher.has("nnodes") && unknown.empty()) ||
                        (deepspeed && !launch.launcher.has("hostfile"));
  if (one_node && nodes == 0) nodes = 1;
  if (nodes > 0 && per_node > 0) return nodes * per_node;
  if (const int gpus = launcher_count(launch, {"gpus", "G"}, unknown); gpus > 0) return gpus;
  const int ranks = launcher_count(launch, {"ntasks", "np", "n"}, unknown);
  if (ranks > 0 && tasks_are_gpus) return ranks;
  if (!unknown.empty()) {
    launched.assume(
        fmt::format("how many GPUs: '{}' does not say it, so the topology does", unknown));
  }
  return 0;
}

}  // namespace moesim
