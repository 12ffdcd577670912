// SPDX-License-Identifier: Apache-2.0
#include "sim/report/ports.h"

#include <map>

#include "sim/topology/bandwidth_table.h"

namespace moesim {

LinksOfPorts links_of_ports(const Topology& topology) {
  LinksOfPorts result{Ports<PortLinks>(topology.host_count()),
                      Ports<PortLinks>(topology.gpu_count())};
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
  for (std::size_t l = 0; l < topology.links().size(); ++l) {
    const Link& link = topology.links()[l];
    const LinkId id(static_cast<int>(l));
    const int from = host_of(link.from), to = host_of(link.to);
    if (from != to) {
      if (from >= 0) result.hosts.out[static_cast<std::size_t>(from)].push_back(id);
      if (to >= 0) result.hosts.in[static_cast<std::size_t>(to)].push_back(id);
    }
    if (const auto gpu = rank_at.find(link.from); gpu != rank_at.end()) {
      result.gpus.out[gpu->second].push_back(id);
    }
    if (const auto gpu = rank_at.find(link.to); gpu != rank_at.end()) {
      result.gpus.in[gpu->second].push_back(id);
    }
  }
  return result;
}

BytesPerSecond most_of_port(const Topology& topology, const PortLinks& links, Bytes bytes) {
  BytesPerSecond sum;
  for (const LinkId id : links) {
    const Link& link = topology.links()[id.index()];
    sum += link.table ? link.table->most_up_to(bytes) : link.bandwidth;
  }
  return sum;
}

}  // namespace moesim
