// SPDX-License-Identifier: Apache-2.0
// How large generated clusters are, counted by hand, before they are built.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

using testing::nvswitch_nodes;
using testing::pcie_nodes;

std::string refused(const std::string& text, const ClusterLimits& limits) {
  try {
    parse_topology(text, "t", {}, limits);
  } catch (const Error& e) {
    return e.diagnostics().front().message;
  }
  return "";
}

/// The cluster has just that many.
void expect_size(const std::string& text, int vertices, int cables) {
  const double v = vertices, c = cables;
  EXPECT_EQ(refused(text, {.vertices = v, .cables = c}), "") << text;
  EXPECT_EQ(refused(text, {.vertices = v - 1}),
            fmt::format("the cluster has {} GPUs, NICs and switches, at most {} are possible",
                        vertices, vertices - 1))
      << text;
  EXPECT_EQ(refused(text, {.cables = c - 1}),
            fmt::format("the cluster has {} cables, at most {} are possible", cables, cables - 1))
      << text;
}

TEST(Size, NodesHaveGpusNicsAndASwitchWithACableEach) {
  // 6 nodes of 2 GPUs and 2 NICs: 5 vertices; a GPU has a cable to NVLink and one to PCIe, a NIC
  // one to PCIe and one out.
  const auto six = [](const std::string& fabric) { return nvswitch_nodes(6, 2, 2, fabric); };
  expect_size(six("{kind: switch}"), 30 + 1, 48);
  expect_size(six("{kind: leaf-spine, nodes_per_leaf: 2, spines: 3, latency: 1 us}"), 30 + 3,
              48 + 9);
  expect_size(six("{kind: rail, nodes_per_leaf: 4, spines: 3, latency: 1 us}"), 30 + 4, 48 + 12);
  expect_size(six("{kind: fat-tree, nodes_per_leaf: 1, leaves_per_pod: 2, spines: 2, cores: 4, "
                  "latency: 1 us}"),
              30 + 6, 48 + 36);
  expect_size(six("{kind: torus, dimensions: [2, 3], bandwidth: 1 GB/s, latency: 1 us}"), 30 + 6,
              48 + 12);
  // 4 groups of 2 routers: 4 x 4 / 2 pairs of groups and 8 x 2 / 2 in groups, at most.
  expect_size(nvswitch_nodes(8, 2, 1,
                             "{kind: dragonfly, groups: 4, routers: 2, nodes_per_router: 1, "
                             "local: {bandwidth: 1 GB/s, latency: 1 us}, "
                             "global: {bandwidth: 1 GB/s, latency: 1 us}}"),
              8 * 4 + 8, 8 * 6 + 16);
}

TEST(Size, PortsThatNicsShareCount) {
  // 2 GPUs, 4 NICs, NVLink's switch and a switch for the NICs of each GPU.
  expect_size(nvswitch_nodes(1, 2, 4, "{kind: none}"), 2 + 4 + 1 + 2, 2 + 2 + 8);
}

TEST(Size, TreesOfPcieAndPairsOfDataCentersCount) {
  // 8 GPUs, a NIC, 2 sockets with 2 switches each and one for NVLink; 6 x 6 cables in the tree.
  expect_size(pcie_nodes(1, 1, "{kind: none}"), 16, 8 + 8 + 2 + 36);
  expect_size(pcie_nodes(1, 1, "{kind: none}") + "data_centers: 4\nwan: {kind: mesh, " +
                  testing::wan_fields + "}\n",
              4 * 16, 4 * 54 + 6);
  expect_size(
      "nodes: 1\nnode: {gpu: x, gpus: 5, nvlink: {kind: mesh, bandwidth: 1 GB/s, "
      "latency: 1 us}}\n",
      6, 10 + 5);
}

TEST(Size, RoutesAreEdgeSwitchesTimesSwitchesAndHosts) {
  // 8,192 x (8,192 + 8,192) are possible, a ring of one more is not.
  EXPECT_EQ(refused(nvswitch_nodes(8193, 1, 1,
                                   "{kind: torus, dimensions: [8193], bandwidth: 1 GB/s, "
                                   "latency: 1 us}"),
                    {}),
            "the cluster has 1.34e+08 routes between switches and hosts, at most 1.34e+08 are "
            "possible");
}

}  // namespace
}  // namespace moesim
