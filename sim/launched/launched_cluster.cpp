// SPDX-License-Identifier: Apache-2.0
#include "sim/launched/launched_cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/data_files.h"
#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

using Changes = std::vector<std::pair<std::string, int>>;

std::vector<Override> overrides_of(const Changes& changes) {
  std::vector<Override> overrides;
  for (const auto& [key, value] : changes) overrides.push_back({key, std::to_string(value), ""});
  return overrides;
}

/// Whether the topology has so many GPUs with these changes.
bool has_gpus(const std::string& path, const Changes& changes, int gpus) {
  try {
    return read_topology(path, overrides_of(changes)).topology.gpu_count() == gpus;
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

/// The dispatch of a cluster that is one NVLink domain, if the software has another one there.
void choose_policy(const std::string& path, const Changes& changes, const std::string& in_domain,
                   const std::string& key, Launched& launched) {
  if (in_domain.empty()) return;
  const Topology topology = read_topology(path, overrides_of(changes)).topology;
  const bool joined = std::ranges::any_of(topology.vertices(), [](const Vertex& vertex) {
    return vertex.kind == VertexKind::nvswitch;
  });
  if (topology.host_count() > 1 || !joined) {
    launched.assume(
        fmt::format("{}: {} gathers tokens between NVLink domains", key, launched.software));
    return;
  }
  launched.set(key, in_domain);
  launched.assume(
      fmt::format("{}: all GPUs are in one NVLink domain, where {} writes tokens to their GPUs",
                  key, launched.software));
}

/// Changes of the topology that give it as many GPUs, on top of others.
Changes changes_for(int gpus, const std::string& topology, const std::string& path,
                    const Changes& before, const Launched& launched) {
  if (has_gpus(path, before, gpus)) return before;
  const Topology read = read_topology(path).topology;
  for (const Changes& way : ways_to(gpus, read.gpu_count() / read.host_count())) {
    Changes changes = way;
    for (const auto& change : before) {
      const bool replaced =
          std::ranges::any_of(way, [&](const auto& c) { return c.first == change.first; });
      if (!replaced) changes.push_back(change);
    }
    if (has_gpus(path, changes, gpus)) return changes;
  }
  throw error_in(launched.file,
                 fmt::format("it starts {}, {} has {} and cannot have as many",
                             counted(gpus, "GPU"), topology, read.gpu_count()),
                 "another --topology: moesim list topologies");
}

/// Takes the GPUs of the topology if the launch does not say how many.
void take_gpus(const std::string& topology, const std::string& path, Launched& launched) {
  const int there = read_topology(path).topology.gpu_count();
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

}  // namespace

void fit_topology(const std::string& topology, Launched& launched) {
  const std::string path = data_file("topologies", topology);
  if (launched.gpus == 0) take_gpus(topology, path, launched);
  const Changes changes = changes_for(launched.gpus, topology, path, {}, launched);
  for (const auto& [key, value] : changes) {
    launched.change("topology." + key, std::to_string(value));
  }
  choose_policy(path, changes, launched.policy_in_domain, "policy", launched);
  if (launched.decode.gpus == 0) return;
  const Changes of_decode = changes_for(launched.decode.gpus, topology, path, changes, launched);
  std::vector<std::string> set;
  for (const auto& [key, value] : of_decode)
    set.push_back(fmt::format("topology.{}={}", key, value));
  if (of_decode != changes) {
    launched.set("serving.decode.set", fmt::format("[{}]", fmt::join(set, ", ")));
  }
  choose_policy(path, of_decode, launched.decode.policy_in_domain, "serving.decode.policy",
                launched);
}

}  // namespace moesim
