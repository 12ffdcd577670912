// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/launched_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/counted.h"
#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

using Changes = std::vector<std::pair<std::string, int>>;

/// Whether the topology has so many GPUs with these changes.
bool has_gpus(const std::string& path, const Changes& changes, int gpus) {
  std::vector<Override> overrides;
  for (const auto& [key, value] : changes) overrides.push_back({key, std::to_string(value), ""});
  try {
    return read_topology(path, overrides).topology.gpu_count() == gpus;
  } catch (const Error&) {
    return false;
  }
}

/// Fewer nodes or more; if these do not make it, smaller nodes with as many adapters per GPU.
std::vector<Changes> ways_to(int gpus, int gpus_of_node) {
  std::vector<Changes> ways;
  if (gpus % gpus_of_node == 0) ways.push_back({{"nodes", gpus / gpus_of_node}});
  int part = std::min(gpus, gpus_of_node);
  while (gpus % part != 0) --part;
  ways.push_back({{"nodes", gpus / part}, {"node.gpus", part}, {"node.nics.count", part}});
  ways.push_back({{"nodes", gpus / part}, {"node.gpus", part}});
  return ways;
}

}  // namespace

void fit_topology(const std::string& topology, Launched& launched) {
  const std::string path = data_file("topologies", topology);
  const Topology read = read_topology(path).topology;
  const int there = read.gpu_count();
  if (launched.gpus == 0) {
    launched.gpus = there;
    launched.assume(fmt::format("{}, as {} has: the launch does not say how many",
                                counted(there, "GPU"), topology));
    if (there % launched.gpus_divisor == 0) return;
    throw error_in(launched.file,
                   fmt::format("its degrees need a multiple of {}, {} has {}",
                               counted(launched.gpus_divisor, "GPU"), topology, there),
                   "say the GPUs in the file: torchrun --nnodes 8 --nproc_per_node 8, or in YAML "
                   "num_nodes: 8 and devices: 8");
  }
  if (launched.gpus == there) return;
  for (const Changes& changes : ways_to(launched.gpus, there / read.host_count())) {
    if (!has_gpus(path, changes, launched.gpus)) continue;
    for (const auto& [key, value] : changes) {
      launched.change("topology." + key, std::to_string(value));
    }
    return;
  }
  throw error_in(launched.file,
                 fmt::format("it starts {}, {} has {} and cannot have as many",
                             counted(launched.gpus, "GPU"), topology, there),
                 "another --topology: moesim list topologies");
}

}  // namespace moesim
