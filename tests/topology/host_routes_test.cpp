// SPDX-License-Identifier: Apache-2.0
// The links between GPUs and the memory of their hosts, and what copies ask of them.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

using testing::nvswitch_nodes;
using testing::pcie_nodes;

std::string names_of(const Topology& topology, const std::vector<LinkId>& links) {
  std::string text;
  for (const LinkId id : links) {
    const Link& link = topology.link(id);
    text += topology.vertices()[link.from.index()].name + ">" +
            topology.vertices()[link.to.index()].name + " ";
  }
  return text;
}

/// Every GPU moves so many bytes to the memory of its host, or back.
LinkLoads loads_of(const Topology& topology, std::int64_t bytes, bool back) {
  ByteMatrix matrix{Bytes(bytes)};
  for (int gpu = 0; gpu < topology.gpu_count(); ++gpu) {
    const ByteMatrix::Entry own{GpuId(gpu), 1};
    matrix.add_row(std::span(&own, 1));
  }
  GroupTraffic traffic{matrix, topology.all_gpus(), back};
  traffic.with_hosts = true;
  return topology.loads(traffic);
}

TEST(HostRoutes, ShareThePcieLinkOfTheGpuWithItsNic) {
  const Topology topology = parse(nvswitch_nodes(2, 4, 4, "{kind: switch}"));
  const HostRoute* route = topology.host_route(GpuId(5));
  ASSERT_NE(route, nullptr);
  EXPECT_EQ(names_of(topology, route->out), "node1.gpu1>node1.nic1 ");
  EXPECT_EQ(names_of(topology, route->back), "node1.nic1>node1.gpu1 ");
}

TEST(HostRoutes, GoUpTheTreeToTheSocketOfTheGpu) {
  const Topology topology = parse(pcie_nodes(1, 2, "{kind: none}"));
  EXPECT_EQ(names_of(topology, topology.host_route(GpuId(7))->out),
            "node0.gpu7>node0.pcie3 node0.pcie3>node0.socket1 ");
}

TEST(HostRoutes, AreLinksOfTheirOwnWithC2c) {
  std::string text = nvswitch_nodes(1, 4, 4, "{kind: none}");
  text.insert(text.find("  nics"), "  c2c: {bandwidth: 225 GB/s, latency: 1 us}\n");
  const Topology topology = parse(text);
  EXPECT_EQ(names_of(topology, topology.host_route(GpuId(2))->back), "node0.memory2>node0.gpu2 ");
  const LinkLoads loads = loads_of(topology, 225'000'000, false);
  EXPECT_EQ(loads.uses.size(), 4U);
  EXPECT_NEAR(loads.uses[0].time.value, 1e-3, 1e-12);
  EXPECT_NEAR(loads.latency.value, 1e-6, 1e-15);
}

TEST(HostRoutes, AddUpWhatGpusPutOnACommonLink) {
  const Topology topology = parse(pcie_nodes(1, 2, "{kind: none}"));
  for (const bool back : {false, true}) {
    const LinkLoads loads = loads_of(topology, 25'000'000, back);
    // 1 ms on the link of every GPU, 2 ms on that of every switch with two; no overhead.
    double most = 0;
    for (const LinkUse& use : loads.uses) most = std::max(most, use.time.value);
    EXPECT_EQ(loads.uses.size(), 8U + 4U);
    EXPECT_NEAR(most, 2e-3, 1e-12);
    EXPECT_NEAR(loads.latency.value, 4e-6, 1e-15);
    EXPECT_EQ(loads.overhead, Seconds(0));
  }
}

TEST(HostRoutes, AreUnknownIfNobodyStatesPcie) {
  std::string text = nvswitch_nodes(1, 4, 4, "{kind: none}");
  const auto at = text.find("  pcie");
  text.erase(at, text.find('\n', at) + 1 - at);
  const Topology topology = parse(text);
  EXPECT_EQ(topology.host_route(GpuId(0)), nullptr);
  EXPECT_THROW(loads_of(topology, 1, false), Error);
}

TEST(HostRoutes, StayWithTheirGpusInASlice) {
  const Topology topology = parse(nvswitch_nodes(2, 4, 4, "{kind: switch}"));
  const Topology slice = topology.of_gpus({GpuId(6)});
  EXPECT_EQ(slice.host_route(GpuId(0)), topology.host_route(GpuId(6)));
}

}  // namespace
}  // namespace moesim
