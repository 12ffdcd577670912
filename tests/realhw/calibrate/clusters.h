// SPDX-License-Identifier: Apache-2.0
// Small clusters that calibrations are planned for.
#pragma once

#include <fmt/format.h>

#include <string>

#include "sim/topology/reader.h"

namespace moesim {

/// Nodes of GPUs on an NVLink switch, each with a NIC of its own that it reaches over PCIe of so
/// many GB/s.
inline Topology switched_cluster(int nodes, int gpus, double pcie = 50) {
  std::string text =
      fmt::format("name: t\nnodes: {}\nnode:\n  gpu: h100-sxm\n  gpus: {}\n", nodes, gpus);
  if (gpus > 1) text += "  nvlink: {kind: switch, bandwidth: 100 GB/s, latency: 1 us}\n";
  if (nodes > 1) {
    text += fmt::format(
        "  pcie: {{bandwidth: {} GB/s, latency: 2 us}}\n"
        "  nics: {{count: {}, bandwidth: 25 GB/s, latency: 4 us}}\nfabric: {{kind: switch}}\n",
        pcie, gpus);
  }
  return parse_topology(text, "t.yaml").topology;
}

/// Two nodes, one of fewer GPUs.
inline Topology unequal_nodes(int first, int second) {
  const auto node = [](int gpus) {
    return fmt::format(
        "  - nodes: 1\n    node:\n      gpu: h100-sxm\n      gpus: {0}\n{1}"
        "      pcie: {{bandwidth: 50 GB/s, latency: 2 us}}\n"
        "      nics: {{count: {0}, bandwidth: 25 GB/s, latency: 4 us}}\n",
        gpus, gpus > 1 ? "      nvlink: {kind: switch, bandwidth: 100 GB/s, latency: 1 us}\n" : "");
  };
  const std::string text =
      "name: t\ngroups:\n" + node(first) + node(second) + "fabric: {kind: switch}\n";
  return parse_topology(text, "t.yaml").topology;
}

}  // namespace moesim
