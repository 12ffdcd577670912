// SPDX-License-Identifier: Apache-2.0
#include "sim/run/cluster_changes.h"

#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "sim/topology/connections.h"

namespace moesim {
namespace {

/// Every GPU as it becomes; if they become alike, they share a model.
GpuModels changed_gpus(const GpuModels& gpus, const ClusterChanges& changes) {
  std::map<std::pair<const GpuModel*, GpuFactors>, std::shared_ptr<const GpuModel>> known;
  GpuModels result;
  for (std::size_t g = 0; g < gpus.size(); ++g) {
    GpuFactors factors = changes.gpus;
    if (const auto slow = changes.slow.find(GpuId(static_cast<std::int64_t>(g)));
        slow != changes.slow.end()) {
      factors.flops *= slow->second;
      factors.memory_bandwidth *= slow->second;
      factors.launch /= slow->second;
    }
    if (factors == GpuFactors{}) {
      result.push_back(gpus[g]);
      continue;
    }
    auto& model = known[{gpus[g].get(), factors}];
    if (!model) model = std::make_shared<const GpuModel>(changed(*gpus[g], factors));
    result.push_back(model);
  }
  return result;
}

/// The cluster that is left.
Topology surviving(const Topology& topology, const ClusterChanges& changes) {
  Topology whole = changed(topology, changes.topology);
  if (changes.failed.empty()) return whole;
  std::vector<GpuId> left;
  for (const GpuId gpu : whole.all_gpus()) {
    if (!changes.failed.contains(gpu)) left.push_back(gpu);
  }
  if (left.empty()) throw Error("all GPUs have failed: none is left to run on");
  return whole.of_gpus(left);
}

/// Queues are as much faster as their links.
std::shared_ptr<const Connections> changed_connections(const ClusterInput& cluster,
                                                       const TopologyChanges& changes) {
  if (!cluster.connections) return nullptr;
  auto result = std::make_shared<Connections>(*cluster.connections);
  result->queues.clear();
  for (const auto& [link, queue] : cluster.connections->queues) {
    if (changes.failed.contains(link)) continue;
    const auto gone = std::distance(changes.failed.begin(), changes.failed.lower_bound(link));
    const double speed = speed_of(link, cluster.topology.links()[link.index()].link_class, changes);
    result->queues[LinkId(link.value - gone)] = {BytesPerSecond(queue.rate.value * speed),
                                                 queue.burst};
  }
  return result;
}

}  // namespace

ClusterInput changed(const ClusterInput& cluster, const ClusterChanges& changes) {
  GpuModels gpus = changed_gpus(cluster.gpus, changes);
  GpuModels left;
  for (const GpuId gpu : cluster.topology.all_gpus()) {
    if (!changes.failed.contains(gpu)) left.push_back(std::move(gpus[gpu.index()]));
  }
  return {.file = cluster.file,
          .topology = surviving(cluster.topology, changes),
          .gpus = std::move(left),
          .gpu_files = cluster.gpu_files,
          .ep = cluster.ep,
          .batches = {},
          .first_step = cluster.first_step,
          .warmup = {},
          .unsuitable = cluster.unsuitable,
          .connections = changed_connections(cluster, changes.topology),
          .costs = cluster.costs};
}

}  // namespace moesim
