// SPDX-License-Identifier: Apache-2.0
#include "sim/run/kv_links.h"

#include <fmt/format.h>

#include <vector>

#include "sim/base/data_files.h"
#include "sim/plan/exchange_time.h"
#include "sim/topology/reader.h"

namespace moesim {
namespace {

constexpr std::int64_t probe = std::int64_t{1} << 26;  // bytes per GPU: of some thousand tokens

Topology with_nodes(const Scenario& scenario, int gpus) {
  const std::string& name = scenario.topologies.front();
  const std::string path = data_file("topologies", name, scenario.file);
  std::vector<Override> overrides = scenario.overrides_of("topology", name);
  const TopologyFile one = read_topology(path, overrides);
  const int of_node = one.topology.gpu_count() / one.topology.host_count();
  const int nodes = (gpus + of_node - 1) / of_node;
  overrides.push_back({"nodes", std::to_string(nodes), ""});
  try {
    return read_topology(path, overrides).topology;
  } catch (const Error&) {
    throw Error(fmt::format("'{}' cannot be made larger, to hold pools that are apart", name),
                "serving.transfer: {bandwidth: 50 GB/s} says what carries keys and values");
  }
}

}  // namespace

KvLink kv_link(const Scenario& scenario, int prompt_gpus, int decode_gpus) {
  const Topology cluster = with_nodes(scenario, prompt_gpus + decode_gpus);
  const int gpus = cluster.gpu_count();
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(gpus) * static_cast<std::size_t>(gpus));
  for (int from = 0; from < prompt_gpus; ++from) {
    const int to = prompt_gpus + from % decode_gpus;
    bytes[static_cast<std::size_t>(from) * static_cast<std::size_t>(gpus) +
          static_cast<std::size_t>(to)] = probe;
  }
  const ExchangeTime time = exchange_time(cluster.loads(ByteMatrix::from_dense(gpus, bytes)));
  return {BytesPerSecond(static_cast<double>(probe) * prompt_gpus / time.transfer.value),
          time.overhead + time.latency};
}

}  // namespace moesim
