// SPDX-License-Identifier: Apache-2.0
// Routes in closed form: which vertices a pair's traffic visits, and what links then carry.
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/topology/topology_changes.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

using testing::cable;
using testing::nvswitch_nodes;
using testing::pcie_nodes;
using testing::written_out;

/// The vertices that every path of a pair visits.
std::vector<std::string> ways(const Topology& t, int from, int to) {
  std::vector<std::string> out;
  for (const Path& path : t.paths(GpuId(from), GpuId(to))) {
    std::string& way = out.emplace_back(t.vertices()[t.vertex_of(GpuId(from)).index()].name);
    for (const LinkId link : path.links) {
      way += " " + t.vertices()[t.links()[link.index()].to.index()].name;
    }
  }
  return out;
}

using Ways = std::vector<std::string>;

std::int64_t bytes_on(const Topology& t, const LinkLoads& loads, const std::string& from,
                      const std::string& to) {
  for (std::size_t i = 0; i < t.links().size(); ++i) {
    const Link& link = t.links()[i];
    if (t.vertices()[link.from.index()].name == from && t.vertices()[link.to.index()].name == to) {
      return loads.on(LinkId(static_cast<std::int64_t>(i))).bytes.value;
    }
  }
  ADD_FAILURE() << "no link " << from << " -> " << to;
  return -1;
}

/// One entry: `bytes` from one GPU to another.
ByteMatrix one(const Topology& t, int from, int to, std::int64_t bytes) {
  const auto n = static_cast<std::size_t>(t.gpu_count());
  std::vector<std::int64_t> dense(n * n, 0);
  dense[static_cast<std::size_t>(from) * n + static_cast<std::size_t>(to)] = bytes;
  return ByteMatrix::from_dense(t.gpu_count(), dense);
}

TEST(Routes, PxnReachesAnotherRailByNvlink) {
  const Topology t = parse(nvswitch_nodes(2, 2, 2, "{kind: rail}"));
  EXPECT_EQ(ways(t, 0, 1), Ways{"node0.gpu0 node0.nvswitch node0.gpu1"});
  EXPECT_EQ(ways(t, 0, 2), Ways{"node0.gpu0 node0.nic0 rail0.leaf0 node1.nic0 node1.gpu0"});
  EXPECT_EQ(ways(t, 0, 3),
            Ways{"node0.gpu0 node0.nvswitch node0.gpu1 node0.nic1 rail1.leaf0 node1.nic1 "
                 "node1.gpu1"});
}

TEST(Routes, PxnHoldsBetweenLeavesOfOneRail) {
  const Topology t =
      parse(nvswitch_nodes(2, 2, 2, "{kind: rail, nodes_per_leaf: 1, latency: 1 us}"));
  EXPECT_EQ(ways(t, 0, 3),
            Ways{"node0.gpu0 node0.nvswitch node0.gpu1 node0.nic1 rail1.leaf0 rail1.spine0 "
                 "rail1.leaf1 node1.nic1 node1.gpu1"});
}

TEST(Routes, SpinesJoinRailsWhenAsked) {
  const Topology t =
      parse(nvswitch_nodes(2, 2, 2, "{kind: rail, cross_rail: spine, latency: 1 us}"));
  EXPECT_EQ(ways(t, 0, 3),
            Ways{"node0.gpu0 node0.nic0 rail0.leaf0 spine0 rail1.leaf0 node1.nic1 node1.gpu1"});
  EXPECT_EQ(ways(t, 0, 2), Ways{"node0.gpu0 node0.nic0 rail0.leaf0 node1.nic0 node1.gpu0"});
}

TEST(Routes, ASharedNicIsEnteredNearestToItsGpu) {
  const Topology t = parse(nvswitch_nodes(2, 4, 2, "{kind: switch}"));
  EXPECT_EQ(ways(t, 1, 6), Ways{"node0.gpu1 node0.nic0 switch node1.nic1 node1.gpu2"});
}

TEST(Routes, SocketsLieBetweenAGpuAndTheOnlyNic) {
  const Topology t = parse(pcie_nodes(2, 1, "{kind: switch}"));
  EXPECT_EQ(ways(t, 0, 1), Ways{"node0.gpu0 node0.gpu1"});
  EXPECT_EQ(ways(t, 1, 2), Ways{"node0.gpu1 node0.pcie0 node0.socket0 node0.pcie1 node0.gpu2"});
  EXPECT_EQ(ways(t, 0, 12),
            Ways{"node0.gpu0 node0.pcie0 node0.socket0 node0.nic0 switch node1.nic0 node1.socket0 "
                 "node1.socket1 node1.pcie2 node1.gpu4"});
}

TEST(Routes, EqualCostPathsShareEvenlyAndTheOddBytesGoLow) {
  const Topology t = parse(
      nvswitch_nodes(2, 1, 1, "{kind: leaf-spine, nodes_per_leaf: 1, spines: 3, latency: 1 us}"));
  EXPECT_EQ(ways(t, 0, 1),
            (Ways{"node0.gpu0 node0.nic0 leaf0 spine0 leaf1 node1.nic0 node1.gpu0",
                  "node0.gpu0 node0.nic0 leaf0 spine1 leaf1 node1.nic0 node1.gpu0",
                  "node0.gpu0 node0.nic0 leaf0 spine2 leaf1 node1.nic0 node1.gpu0"}));
  const LinkLoads loads = t.loads(one(t, 0, 1, 101));
  EXPECT_EQ(bytes_on(t, loads, "leaf0", "spine0"), 34);
  EXPECT_EQ(bytes_on(t, loads, "leaf0", "spine1"), 34);
  EXPECT_EQ(bytes_on(t, loads, "leaf0", "spine2"), 33);
  EXPECT_EQ(bytes_on(t, loads, "spine2", "leaf1"), 33);
  EXPECT_EQ(bytes_on(t, loads, "leaf1", "node1.nic0"), 101);
  EXPECT_EQ(bytes_on(t, loads, "leaf1", "spine0"), 0);
}

TEST(Routes, LatencyIsTheLongestRouteWithTraffic) {
  const Topology t = parse(nvswitch_nodes(2, 2, 2, "{kind: rail}"));
  // NVLink hops take 1 us, PCIe 2 us, NIC 3 us.
  EXPECT_DOUBLE_EQ(t.loads(one(t, 0, 1, 1)).latency.value, 2e-6);
  EXPECT_DOUBLE_EQ(t.loads(one(t, 0, 2, 1)).latency.value, 10e-6);
  EXPECT_DOUBLE_EQ(t.loads(one(t, 0, 3, 1)).latency.value, 12e-6);
  EXPECT_DOUBLE_EQ(t.loads(one(t, 0, 0, 1)).latency.value, 0);
}

TEST(Routes, LinksOfAnAllToAllInClosedForm) {
  // Every GPU sends 10 bytes to each of the 3 others; 2 nodes of 2 GPUs, rails with PXN.
  const Topology t = parse(nvswitch_nodes(2, 2, 2, "{kind: rail}"));
  const LinkLoads loads = t.loads(ByteMatrix::from_dense(4, std::vector<std::int64_t>(16, 10)));
  // NVLink: 10 for the neighbour and 10 that change rails; a NIC: 2 GPUs x 10.
  EXPECT_EQ(bytes_on(t, loads, "node0.gpu0", "node0.nvswitch"), 20);
  EXPECT_EQ(bytes_on(t, loads, "node0.nvswitch", "node0.gpu0"), 20);
  EXPECT_EQ(bytes_on(t, loads, "node0.gpu0", "node0.nic0"), 20);
  EXPECT_EQ(bytes_on(t, loads, "rail0.leaf0", "node1.nic0"), 20);
  EXPECT_EQ(bytes_on(t, loads, "node1.nic0", "node1.gpu0"), 20);
}

TEST(Routes, ATorusTakesTheShortWayRound) {
  const Topology t = parse(nvswitch_nodes(5, 1, 1,
                                          "{kind: torus, dimensions: [5], bandwidth: 1 GB/s, "
                                          "latency: 1 us}"));
  EXPECT_EQ(ways(t, 0, 2),
            Ways{"node0.gpu0 node0.nic0 router0 router1 router2 node2.nic0 node2.gpu0"});
  EXPECT_EQ(ways(t, 0, 4), Ways{"node0.gpu0 node0.nic0 router0 router4 node4.nic0 node4.gpu0"});
}

TEST(Routes, ADragonflyTakesOneGlobalCable) {
  const Topology t = parse(nvswitch_nodes(
      12, 1, 1,
      "{kind: dragonfly, groups: 4, routers: 3, nodes_per_router: 1, "
      "local: {bandwidth: 1 GB/s, latency: 1 us}, global: {bandwidth: 1 GB/s, latency: 1 us}}"));
  for (int s = 0; s < 12; ++s) {
    for (int d = 0; d < 12; ++d) {
      if (s == d) continue;
      int global = 0, local = 0;
      const std::vector<Path> paths = t.paths(GpuId(s), GpuId(d));
      ASSERT_EQ(paths.size(), 1U);
      for (const LinkId link : paths[0].links) {
        const auto c = static_cast<std::size_t>(t.links()[link.index()].link_class);
        global += t.classes()[c].name == "global";
        local += t.classes()[c].name == "local";
      }
      EXPECT_EQ(global, s / 3 == d / 3 ? 0 : 1);
      EXPECT_LE(local, 2);
    }
  }
}

TEST(Routes, ADragonflyDealsItsGlobalCablesToAllRouters) {
  const Topology t = parse(nvswitch_nodes(
      12, 1, 1,
      "{kind: dragonfly, groups: 4, routers: 3, nodes_per_router: 1, "
      "local: {bandwidth: 1 GB/s, latency: 1 us}, global: {bandwidth: 1 GB/s, latency: 1 us}}"));
  std::vector<int> cables(t.vertices().size(), 0);
  for (const Link& link : t.links()) {
    const auto c = static_cast<std::size_t>(link.link_class);
    cables[link.from.index()] += t.classes()[c].name == "global";
  }
  for (std::size_t v = 0; v < cables.size(); ++v) {
    EXPECT_EQ(cables[v], t.vertices()[v].kind == VertexKind::router ? 1 : 0);
  }
}

TEST(Routes, GatewaysCarryNothingWithinADataCenter) {
  const Topology t = parse(nvswitch_nodes(2, 2, 2, "{kind: rail}") +
                           "data_centers: 2\n"
                           "wan: {kind: hub, bandwidth: 1 GB/s, latency: 1 ms}\n");
  for (int s = 0; s < 8; ++s) {
    for (int d = 0; d < 8; ++d) {
      if (s == d) continue;
      int gateways = 0, wan = 0;
      const std::vector<Path> paths = t.paths(GpuId(s), GpuId(d));
      for (const LinkId link : paths.front().links) {
        const auto c = static_cast<std::size_t>(t.links()[link.index()].link_class);
        gateways += t.classes()[c].name == "gateway";
        wan += t.classes()[c].tier == Tier::wan;
      }
      EXPECT_EQ(gateways, s / 4 == d / 4 ? 0 : 2);
      EXPECT_EQ(wan, s / 4 == d / 4 ? 0 : 2);
    }
  }
}

TEST(Routes, GatewaysLimitNothing) {
  const Topology t = parse(nvswitch_nodes(1, 4, 4, "{kind: switch}") +
                           "data_centers: 4\n"
                           "wan: {kind: mesh, bandwidth: 1 GB/s, latency: 1 ms}\n");
  std::vector<std::int64_t> bytes(16 * 16, 0);
  for (std::size_t from = 0; from < 4; ++from) {
    for (std::size_t to = 4; to < 16; ++to) bytes[from * 16 + to] = 1'000'000;
  }
  Seconds longest;
  for (const LinkUse& use : t.loads(ByteMatrix::from_dense(16, bytes)).uses) {
    longest = std::max(longest, use.time);
  }
  EXPECT_NEAR(longest.value, 16e-3, 1e-9);  // 16 MB on each of the three links of a data center
}

// Rails meet nowhere: without a NIC on rail 0, node 0 reaches GPU 0 of node 1 by rail 1 and NVLink.
// Node 2 still does by rail 0.
TEST(Routes, TakeTheNearestNicThatIsReached) {
  const Topology whole = parse(nvswitch_nodes(3, 2, 2, "{kind: rail}"));
  TopologyChanges changes;
  LinkId id(0);
  for (const Link& link : whole.links()) {
    for (const VertexId end : {link.from, link.to}) {
      if (whole.vertices()[end.index()].name == "node0.nic0") changes.failed.insert(id);
    }
    ++id.value;
  }
  const Topology t = changed(whole, changes);
  const auto passes = [&](int from, int to, const std::string& name) {
    const auto paths = t.paths(GpuId(from), GpuId(to));
    EXPECT_EQ(paths.size(), 1u);
    return std::ranges::any_of(paths.front().links, [&](LinkId link) {
      return t.vertices()[t.link(link).to.index()].name == name;
    });
  };
  for (const int from : {0, 1}) {
    EXPECT_TRUE(passes(from, 2, "node0.nic1"));
    EXPECT_TRUE(passes(from, 2, "node1.nic1"));
  }
  EXPECT_TRUE(passes(2, 0, "node0.nic1"));
  for (const int from : {4, 5}) EXPECT_TRUE(passes(from, 2, "node1.nic0"));
  EXPECT_EQ(t.loads(one(t, 0, 2, 7)).uses.size(), t.paths(GpuId(0), GpuId(2)).front().links.size());
}

TEST(Routes, HostsJoinedBackToBackNeedNoSwitch) {
  const Topology t = parse(written_out(cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") +
                                       cable("b1", "bn") + cable("an", "bn")));
  EXPECT_EQ(ways(t, 0, 3), Ways{"a0 an bn b1"});
  EXPECT_EQ(bytes_on(t, t.loads(one(t, 0, 3, 7)), "an", "bn"), 7);
}

TEST(Routes, OtherHostsPassNothingOn) {
  const std::string text =
      "vertices:\n"
      "  - {name: a, kind: gpu, host: a, gpu: x}\n"
      "  - {name: b, kind: gpu, host: b, gpu: x}\n"
      "  - {name: c, kind: gpu, host: c, gpu: x}\n"
      "links:\n" +
      cable("a", "b") + cable("b", "c");
  try {
    parse(text);
    FAIL() << "a reached c through b";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "test.yaml:6:3: error: test: c cannot reach a\n"
                 "    - {from: a, to: b, class: out, bandwidth: 1 GB/s, latency: 1 us}\n"
                 "    ^\n"
                 "hint: GPUs and NICs of other hosts pass nothing on; look at the links out of the "
                 "one and into the other\n");
  }
}

TEST(Routes, CheaperLinksArePreferred) {
  const std::string hosts =
      cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") + cable("b1", "bn");
  const Topology t = parse(written_out(hosts + cable("an", "s", ", cost: 2") + cable("an", "t") +
                                       cable("bn", "s") + cable("bn", "t")));
  EXPECT_EQ(ways(t, 0, 2), Ways{"a0 an t bn b0"});
}

TEST(Routes, TheNearerSwitchIsPreferred) {
  const std::string hosts =
      cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") + cable("b1", "bn");
  const Topology t = parse(written_out(hosts + cable("an", "s") + cable("an", "t") +
                                       cable("s", "t") + cable("bn", "t")));
  EXPECT_EQ(ways(t, 0, 2), Ways{"a0 an t bn b0"});
}

TEST(Routes, TheCheaperOfParallelCablesIsTaken) {
  const std::string hosts =
      cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") + cable("b1", "bn");
  const Topology t = parse(written_out(hosts + cable("an", "s") + cable("bn", "s") +
                                       cable("bn", "s", ", cost: 2") + cable("bn", "s")));
  EXPECT_EQ(ways(t, 0, 2), (Ways{"a0 an s bn b0", "a0 an s bn b0"}));
}

}  // namespace
}  // namespace moesim
