// SPDX-License-Identifier: Apache-2.0
// Small clusters of every kind, as text, and traffic for them.
#pragma once

#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/topology/reader.h"

namespace moesim::testing {

/// Nodes of `gpus` GPUs behind an NVSwitch with `nics` NICs.
inline std::string nvswitch_nodes(int nodes, int gpus, int nics, const std::string& fabric) {
  return fmt::format(
      "nodes: {}\n"
      "node:\n"
      "  gpu: h100-sxm\n"
      "  gpus: {}\n"
      "  nvlink: {{kind: switch, bandwidth: 400 GB/s, latency: 1 us}}\n"
      "  pcie: {{bandwidth: 64 GB/s, latency: 2 us}}\n"
      "  nics: {{count: {}, bandwidth: 50 GB/s, latency: 3 us}}\n"
      "fabric: {}\n",
      nodes, gpus, nics, fabric);
}

/// Nodes of two sockets, two PCIe switches each, and NVLink pairs.
inline std::string pcie_nodes(int nodes, int nics, const std::string& fabric) {
  return fmt::format(
      "nodes: {}\n"
      "node:\n"
      "  gpu: a6000\n"
      "  gpus: 8\n"
      "  nvlink: {{kind: pairs, bandwidth: 50 GB/s, latency: 1 us}}\n"
      "  pcie: {{bandwidth: 25 GB/s, latency: 2 us, sockets: 2, switches: 2,\n"
      "         socket_link: {{bandwidth: 20 GB/s, latency: 5 us}}}}\n"
      "  nics: {{count: {}, bandwidth: 10 GB/s, latency: 3 us}}\n"
      "fabric: {}\n",
      nodes, nics, fabric);
}

/// GPUs and NICs written out: links is the list under `links:`.
inline std::string written_out(const std::string& links) {
  return "vertices:\n"
         "  - {name: a0, kind: gpu, host: a, gpu: x}\n"
         "  - {name: a1, kind: gpu, host: a, gpu: x}\n"
         "  - {name: an, kind: nic, host: a}\n"
         "  - {name: b0, kind: gpu, host: b, gpu: x}\n"
         "  - {name: b1, kind: gpu, host: b, gpu: x}\n"
         "  - {name: bn, kind: nic, host: b}\n"
         "  - {name: s, kind: leaf}\n"
         "  - {name: t, kind: leaf}\n"
         "links:\n" +
         links;
}

inline std::string cable(const std::string& from, const std::string& to,
                         const std::string& more = "") {
  return fmt::format("  - {{from: {}, to: {}, class: {}, bandwidth: 1 GB/s, latency: 1 us{}}}\n",
                     from, to, from[0] == to[0] ? "in" : "out", more);
}

inline const std::string wan_fields = "bandwidth: 1 GB/s, latency: 10 ms";

/// Every generator at a small size, with a name.
inline std::vector<std::pair<std::string, std::string>> small_clusters() {
  const std::string leaf_spine =
      "{kind: leaf-spine, nodes_per_leaf: 2, spines: 3, oversubscription: 2, latency: 1 us}";
  const std::string fat_tree =
      "{kind: fat-tree, nodes_per_leaf: 1, leaves_per_pod: 2, spines: 2, cores: 4, latency: 1 us}";
  const std::string dragonfly =
      "{kind: dragonfly, groups: 3, routers: 2, nodes_per_router: 1,\n"
      "         local: {bandwidth: 50 GB/s, latency: 1 us},\n"
      "         global: {bandwidth: 25 GB/s, latency: 2 us}}";
  const std::string torus = "{kind: torus, dimensions: [2, 3], bandwidth: 50 GB/s, latency: 1 us}";
  const std::string host_links =
      cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") + cable("b1", "bn");
  const std::string star = cable("a0", "s") + cable("a1", "s") + cable("an", "s") +
                           cable("b0", "s") + cable("b1", "s") + cable("bn", "t");
  return {
      {"written two switches", written_out(host_links + cable("an", "s") + cable("an", "t") +
                                           cable("bn", "s") + cable("bn", "t"))},
      {"written uneven ends",
       written_out(host_links + cable("an", "s") + cable("an", "t") + cable("bn", "s") +
                   cable("bn", "t", ", cost: 2") + cable("s", "t"))},
      {"written unused end", written_out(host_links + cable("an", "t") + cable("bn", "s") +
                                         cable("bn", "t", ", cost: 3") + cable("s", "t"))},
      {"written back to back", written_out(host_links + cable("an", "bn"))},
      {"written without inner links", written_out(star)},
      {"one node", nvswitch_nodes(1, 4, 1, "{kind: none}")},
      {"switch", nvswitch_nodes(3, 4, 2, "{kind: switch}")},
      {"many NICs", nvswitch_nodes(3, 2, 4, "{kind: switch}")},
      {"rail pxn", nvswitch_nodes(4, 4, 4, "{kind: rail}")},
      {"rail pods",
       nvswitch_nodes(4, 4, 4, "{kind: rail, nodes_per_leaf: 2, spines: 3, latency: 1 us}")},
      {"rail spine",
       nvswitch_nodes(4, 4, 4, "{kind: rail, cross_rail: spine, spines: 3, latency: 1 us}")},
      {"rail two NICs per GPU", nvswitch_nodes(3, 2, 4, "{kind: rail}")},
      {"leaf-spine", nvswitch_nodes(5, 4, 4, leaf_spine)},
      {"fat-tree", nvswitch_nodes(5, 2, 2, fat_tree)},
      {"dragonfly", nvswitch_nodes(6, 2, 1, dragonfly)},
      {"torus", nvswitch_nodes(6, 2, 2, torus)},
      {"pcie, one NIC", pcie_nodes(3, 1, "{kind: switch}")},
      {"pcie, NIC per socket", pcie_nodes(3, 2, "{kind: rail}")},
      {"pcie, NIC per switch", pcie_nodes(4, 4, leaf_spine)},
      {"pcie, NIC per GPU", pcie_nodes(3, 8, "{kind: rail}")},
      {"wan hub", nvswitch_nodes(2, 2, 2, "{kind: rail}") + "data_centers: 3\nwan: {kind: hub, " +
                      wan_fields + "}\n"},
      {"wan mesh", pcie_nodes(1, 1, "{kind: none}") + "data_centers: 3\nwan: {kind: mesh, " +
                       wan_fields + "}\n"},
  };
}

/// Uneven traffic: most pairs talk, with sizes that divide by nothing in particular.
inline ByteMatrix random_traffic(int ranks, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int64_t> bytes;
  for (int i = 0; i < ranks * ranks; ++i) {
    bytes.push_back(random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 100'003));
  }
  return ByteMatrix::from_dense(ranks, bytes);
}

}  // namespace moesim::testing
