// SPDX-License-Identifier: Apache-2.0
// Every switch has the uplinks of what hangs below it, whatever hangs below the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/clusters.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

/// Bandwidths in GB/s of the links of one class out of a vertex.
std::vector<double> out_of(const Topology& t, const std::string& vertex,
                           const std::string& link_class) {
  std::vector<double> rates;
  for (const Link& link : t.links()) {
    const bool of_class = t.classes()[static_cast<std::size_t>(link.link_class)].name == link_class;
    if (of_class && t.vertices()[link.from.index()].name == vertex) {
      rates.push_back(link.bandwidth.value / 1e9);
    }
  }
  return rates;
}

std::string node_with(const std::string& nics) {
  return "{gpu: x, gpus: 2, nvlink: {kind: switch, bandwidth: 100 GB/s, latency: 1 us}, "
         "nics: {count: 2, bandwidth: " +
         nics + ", latency: 1 us}}";
}

/// Nodes with NICs of 50 GB/s, then nodes with NICs of 10 GB/s.
Topology mixed(int fast, int slow, const std::string& fabric) {
  return std::move(
      parse_topology(fmt::format("groups:\n  - {{nodes: {}, node: {}}}\n"
                                 "  - {{nodes: {}, node: {}}}\nfabric: {}\n",
                                 fast, node_with("50 GB/s"), slow, node_with("10 GB/s"), fabric),
                     "t.yaml")
          .topology);
}

TEST(Uplinks, OfALeafAreThoseOfItsOwnNics) {
  const Topology t = mixed(
      2, 1, "{kind: leaf-spine, nodes_per_leaf: 2, spines: 2, oversubscription: 2, latency: 1 us}");
  EXPECT_THAT(out_of(t, "leaf0", "leaf-spine"), ElementsAre(50, 50));  // 2 x 2 x 50 / 2 / 2
  EXPECT_THAT(out_of(t, "leaf1", "leaf-spine"), ElementsAre(5, 5));    // 1 x 2 x 10 / 2 / 2
  EXPECT_THAT(out_of(t, "spine1", "leaf-spine"), ElementsAre(50, 5));
}

TEST(Uplinks, OfAGpuAreOnePciePortWhateverItsNics) {
  const Topology t =
      parse_topology(testing::nvswitch_nodes(2, 2, 4, "{kind: switch}"), "t").topology;
  EXPECT_THAT(out_of(t, "node0.gpu1", "pcie"), ElementsAre(64));
  EXPECT_THAT(out_of(t, "node0.pcie1", "pcie"), ElementsAre(64, 64, 64));
  EXPECT_THAT(out_of(t, "node0.nic3", "nic"), ElementsAre(50));
  // Without a stated PCIe NICs get what they have.
  const std::string unstated =
      "nodes: 2\nnode: {gpu: x, gpus: 2, nvlink: {kind: mesh, bandwidth: 1 GB/s, latency: 1 us}, "
      "nics: {count: 4, bandwidth: 50 GB/s, latency: 1 us}}\nfabric: {kind: switch}\n";
  EXPECT_THAT(out_of(parse_topology(unstated, "t").topology, "node0.gpu1", "pcie"),
              ElementsAre(50, 50));
}

TEST(Uplinks, OfARailAreThoseOfItsNicsOnly) {
  for (const char* cross : {"pxn", "spine"}) {
    const Topology t = mixed(
        2, 2,
        fmt::format("{{kind: rail, cross_rail: {}, nodes_per_leaf: 2, latency: 1 us}}", cross));
    EXPECT_THAT(out_of(t, "rail1.leaf0", "leaf-spine"), ElementsAre(100)) << cross;
    EXPECT_THAT(out_of(t, "rail1.leaf1", "leaf-spine"), ElementsAre(20)) << cross;
  }
}

TEST(Uplinks, OfAPodAreThoseOfItsLeaves) {
  const Topology t = mixed(4, 1,
                           "{kind: fat-tree, nodes_per_leaf: 2, leaves_per_pod: 2, spines: 2, "
                           "cores: 4, core_oversubscription: 2, latency: 1 us}");
  // A full pod: two leaves bring 2 x 2 x 50 / 2 spines each, half of it goes up to two cores.
  EXPECT_THAT(out_of(t, "pod0.spine0", "spine-core"), ElementsAre(50, 50));
  EXPECT_THAT(out_of(t, "leaf2", "leaf-spine"), ElementsAre(10, 10));
  EXPECT_THAT(out_of(t, "pod1.spine0", "spine-core"), ElementsAre(2.5, 2.5));
}

}  // namespace
}  // namespace moesim
