// SPDX-License-Identifier: Apache-2.0
// Bisection bandwidth and capacities of clusters that can be summed by hand.
#include <gtest/gtest.h>

#include "sim/topology/show/summary.h"
#include "tests/topology/clusters.h"

namespace moesim {
namespace {

using testing::nvswitch_nodes;

Bisection bisection(const std::string& text) {
  return bisection_of(parse_topology(text, "test.yaml").topology);
}

constexpr double giga = 1e9;

TEST(Bisection, ASwitchPassesHalfTheNics) {
  // 2 | 2 nodes, 2 NICs of 50 GB/s each.
  const Bisection b = bisection(nvswitch_nodes(4, 4, 2, "{kind: switch}"));
  EXPECT_EQ(b.level, "node");
  EXPECT_EQ(b.first, 2);
  EXPECT_EQ(b.second, 2);
  EXPECT_DOUBLE_EQ(b.bandwidth.value, 200 * giga);
}

TEST(Bisection, OversubscriptionDividesIt) {
  const auto at = [](const std::string& ratio) {
    return bisection(
               nvswitch_nodes(4, 2, 2,
                              "{kind: leaf-spine, nodes_per_leaf: 2, spines: 2, latency: 1 us, "
                              "oversubscription: " +
                                  ratio + "}"))
               .bandwidth.value /
           giga;
  };
  EXPECT_DOUBLE_EQ(at("1"), 200);  // 2 nodes x 2 NICs x 50 GB/s
  EXPECT_DOUBLE_EQ(at("2"), 100);
  EXPECT_DOUBLE_EQ(at("4"), 50);
}

TEST(Bisection, CoresOfAFatTreeDivideItAgain) {
  const std::string fabric =
      "{kind: fat-tree, nodes_per_leaf: 1, leaves_per_pod: 2, spines: 2, cores: 4, latency: 1 us, "
      "oversubscription: 2, core_oversubscription: 2}";
  EXPECT_DOUBLE_EQ(bisection(nvswitch_nodes(4, 2, 2, fabric)).bandwidth.value, 50 * giga);
}

TEST(Bisection, ARingIsCutTwice) {
  const std::string fabric = "{kind: torus, dimensions: [6], bandwidth: 7 GB/s, latency: 1 us}";
  EXPECT_DOUBLE_EQ(bisection(nvswitch_nodes(6, 1, 1, fabric)).bandwidth.value, 14 * giga);
}

TEST(Bisection, DataCentersMeetOverTheirUplinks) {
  const std::string text = nvswitch_nodes(1, 2, 2, "{kind: none}") +
                           "data_centers: 5\n"
                           "wan: {kind: hub, bandwidth: 1 GB/s, latency: 1 ms}\n";
  const Bisection b = bisection(text);
  EXPECT_EQ(b.level, "data center");
  EXPECT_EQ(b.first, 2);
  EXPECT_EQ(b.second, 3);
  EXPECT_DOUBLE_EQ(b.bandwidth.value, 2 * giga);
}

TEST(Bisection, DataCentersOfAMeshUseAllTheirLinks) {
  for (const std::string fabric : {"none", "switch", "rail"}) {
    const Bisection b = bisection(nvswitch_nodes(1, 2, 2, "{kind: " + fabric + "}") +
                                  "data_centers: 4\n"
                                  "wan: {kind: mesh, bandwidth: 1 GB/s, latency: 1 ms}\n");
    EXPECT_DOUBLE_EQ(b.bandwidth.value, 4 * giga) << fabric;
  }
}

TEST(Bisection, OneNodeIsCutAtItsSockets) {
  const std::string text = testing::pcie_nodes(1, 1, "{kind: none}");
  const Bisection b = bisection(text);
  EXPECT_EQ(b.level, "socket");
  EXPECT_DOUBLE_EQ(b.bandwidth.value, 20 * giga);
}

TEST(Summary, CountsLevelsLinksAndPorts) {
  const Summary s =
      summarize(parse_topology(testing::pcie_nodes(2, 1, "{kind: switch}"), "test.yaml").topology);
  // Each switch holds one NVLink pair, so pairs are not a level.
  ASSERT_EQ(s.levels.size(), 4U);
  const std::vector<std::pair<std::string, int>> expected = {
      {"cluster", 1}, {"node", 2}, {"socket", 4}, {"switch", 8}};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(s.levels[i].name, expected[i].first);
    EXPECT_EQ(s.levels[i].groups, expected[i].second);
    EXPECT_EQ(s.levels[i].gpus.least * s.levels[i].groups, 16);
  }
  ASSERT_EQ(s.classes.size(), 4U);
  EXPECT_EQ(s.classes[0].name, "nvlink");
  EXPECT_EQ(s.classes[0].links, 16);  // 4 pairs x 2 nodes x 2 directions
  EXPECT_DOUBLE_EQ(s.node_out.least.value, 10 * giga);
  EXPECT_DOUBLE_EQ(s.node_out.most.value, 10 * giga);
  ASSERT_EQ(s.gpus.size(), 2U);
  EXPECT_DOUBLE_EQ(s.gpus[1].out.least.value, 25 * giga);
}

TEST(Summary, OfANodeIsWhatGetsOut) {
  const auto out = [](int nics, const std::string& fabric = "{kind: switch}") {
    return summarize(
               parse_topology(testing::nvswitch_nodes(2, 2, nics, fabric), "test.yaml").topology)
        .node_out;
  };
  EXPECT_DOUBLE_EQ(out(2).least.value, 2 * 50 * giga);  // NICs bind
  EXPECT_DOUBLE_EQ(out(4).least.value, 2 * 64 * giga);  // 4 NICs of 50 GB/s, 2 links of PCIe
  EXPECT_DOUBLE_EQ(out(4).most.value, 2 * 64 * giga);
  const Summary written = summarize(
      parse_topology(testing::written_out(testing::cable("a0", "an") + testing::cable("a1", "an") +
                                          testing::cable("b0", "b1") + testing::cable("an", "s") +
                                          testing::cable("an", "t") + testing::cable("an", "b0")),
                     "t.yaml")
          .topology);
  EXPECT_DOUBLE_EQ(written.node_out.least.value, 1 * giga);
  EXPECT_DOUBLE_EQ(written.node_out.most.value, 2 * giga);  // of three links out
}

TEST(Summary, OneWayAndUnevenLinksAreOdd) {
  using testing::cable;
  const auto one_way = [](const std::string& from, const std::string& to, int rate) {
    return fmt::format(
        "  - {{from: {}, to: {}, class: up, bandwidth: {} GB/s, latency: 1 us, one_way: true}}\n",
        from, to, rate);
  };
  const Topology t =
      parse_topology(
          testing::written_out(cable("a0", "an") + cable("a1", "an") + cable("b0", "bn") +
                               cable("b1", "bn") + cable("an", "bn") + one_way("a0", "s", 1) +
                               one_way("b0", "s", 2) + one_way("s", "b0", 1)),
          "test.yaml")
          .topology;
  EXPECT_EQ(oddities(t), (std::vector<std::string>{"a0 -> s has no way back",
                                                   "b0 - s has another bandwidth in each direction",
                                                   "t has no links"}));
}

}  // namespace
}  // namespace moesim
