// SPDX-License-Identifier: Apache-2.0
#include "sim/report/ports.h"

#include <map>

namespace moesim {

PortRates port_rates(const Topology& topology) {
  PortRates result{Ports<BytesPerSecond>(topology.host_count()),
                   Ports<BytesPerSecond>(topology.gpu_count())};
  std::map<VertexId, std::size_t> rank_at;
  std::map<int, int> own;  // hosts of the cluster that GPUs here are of, by numbers of their own
  for (int g = 0; g < topology.gpu_count(); ++g) {
    const VertexId vertex = topology.vertex_of(GpuId(g));
    rank_at[vertex] = static_cast<std::size_t>(g);
    own[topology.vertices()[vertex.index()].host] = topology.host_of(GpuId(g));
  }
  const auto host_of = [&](VertexId vertex) {
    const auto host = own.find(topology.vertices()[vertex.index()].host);
    return host == own.end() ? -1 : host->second;
  };
  for (const Link& link : topology.links()) {
    const int from = host_of(link.from), to = host_of(link.to);
    if (from != to) {
      if (from >= 0) result.hosts.out[static_cast<std::size_t>(from)] += link.bandwidth;
      if (to >= 0) result.hosts.in[static_cast<std::size_t>(to)] += link.bandwidth;
    }
    if (const auto gpu = rank_at.find(link.from); gpu != rank_at.end()) {
      result.gpus.out[gpu->second] += link.bandwidth;
    }
    if (const auto gpu = rank_at.find(link.to); gpu != rank_at.end()) {
      result.gpus.in[gpu->second] += link.bandwidth;
    }
  }
  return result;
}

}  // namespace moesim
