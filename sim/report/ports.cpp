// SPDX-License-Identifier: Apache-2.0
#include "sim/report/ports.h"

#include <map>

namespace moesim {

PortRates port_rates(const Topology& topology) {
  PortRates result{Ports<BytesPerSecond>(topology.host_count()),
                   Ports<BytesPerSecond>(topology.gpu_count())};
  std::map<VertexId, std::size_t> rank_at;
  for (int g = 0; g < topology.gpu_count(); ++g) {
    rank_at[topology.vertex_of(GpuId(g))] = static_cast<std::size_t>(g);
  }
  for (const Link& link : topology.links()) {
    const int from = topology.vertices()[link.from.index()].host;
    const int to = topology.vertices()[link.to.index()].host;
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
