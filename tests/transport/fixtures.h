// SPDX-License-Identifier: Apache-2.0
// Small clusters, traffic and transports whose times can be worked out in one's head.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/plan/exchange_time.h"
#include "sim/topology/reader.h"
#include "sim/transport/reader.h"
#include "sim/transport/transport.h"

namespace moesim::test {

/// Nodes of 4 GPUs, NVLink of 100 GB/s and a NIC of 10 GB/s per GPU, no latencies; overhead 7 us.
inline Topology small_cluster(int nodes, const std::string& more = "") {
  return std::move(parse_topology(fmt::format("source: test\nexchange_overhead: 7 us\n{}nodes: {}\n"
                                              "node:\n  gpu: test\n  gpus: 4\n"
                                              "  nvlink: {{kind: switch, bandwidth: 100 GB/s, "
                                              "latency: 0 us}}\n  nics: {{count: 4, bandwidth: 10 "
                                              "GB/s, latency: 0 us}}\nfabric: {{kind: {}}}\n",
                                              more, nodes, nodes == 1 ? "none" : "switch"),
                                  "cluster.yaml")
                       .topology);
}

inline Transport transport_of(const std::string& text) {
  return parse_transport("name: t\nsource: test\n" + text, "t.yaml");
}

/// From GPU 0 to each of `peers` GPUs from `first` on: so many rows of `row` bytes.
inline ByteMatrix to_peers(int gpus, int first, int peers, std::uint32_t rows, std::int64_t row) {
  ByteMatrix traffic{Bytes(row)};
  std::vector<ByteMatrix::Entry> entries;
  for (int p = first; p < first + peers; ++p) entries.push_back({GpuId(p), rows});
  traffic.add_row(entries);
  for (int g = 1; g < gpus; ++g) traffic.add_row({});
  return traffic;
}

inline ExchangeTime time_by(const Transport& transport, const Topology& topology,
                            const ByteMatrix& traffic, bool goes_on = false) {
  return price(topology, traffic, {&transport, goes_on})->alone;
}

}  // namespace moesim::test
