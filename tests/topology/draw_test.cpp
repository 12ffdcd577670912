// SPDX-License-Identifier: Apache-2.0
// Drawings: what is drawn once and how it is counted.
#include "sim/topology/show/draw.h"

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/topology/show/sketch.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

TEST(Sketch, EverythingHasEveryVertexAndCable) {
  const Topology t = parse(testing::pcie_nodes(2, 1, "{kind: switch}"));
  const Sketch sketch = make_sketch(t, true);
  EXPECT_EQ(sketch.nodes.size(), t.vertices().size());
  EXPECT_EQ(sketch.edges.size() * 2, t.links().size());
  EXPECT_EQ(sketch.hosts.size(), 2U);
}

TEST(Sketch, LookAlikesAreDrawnOnceWithTheirNumber) {
  const Topology t = parse(testing::nvswitch_nodes(
      16, 2, 2, "{kind: leaf-spine, nodes_per_leaf: 4, spines: 3, latency: 1 us}"));
  const Sketch sketch = make_sketch(t, false);
  ASSERT_EQ(sketch.hosts.size(), 1U);
  EXPECT_EQ(sketch.hosts[0].label, "node0, one of 16 alike");
  ASSERT_EQ(sketch.nodes.size(), 7U);  // 2 GPUs, NVSwitch, 2 NICs, leaves, spines
  EXPECT_EQ(sketch.nodes[5].label, "leaf ×4");
  EXPECT_EQ(sketch.nodes[6].label, "spine ×3");
  const Sketch::Edge& up = sketch.edges.back();
  EXPECT_EQ(up.a, 5);
  EXPECT_EQ(up.b, 6);
  EXPECT_DOUBLE_EQ(up.per_a, 3);
  EXPECT_DOUBLE_EQ(up.per_b, 4);
}

TEST(Sketch, DifferentNodesAreDrawnApart) {
  const Topology t = parse(
      "groups:\n"
      "  - nodes: 3\n"
      "    node: {gpu: a800, gpus: 1, nics: {count: 1, bandwidth: 1 GB/s, latency: 1 us}}\n"
      "  - nodes: 2\n"
      "    node: {gpu: h800, gpus: 1, nics: {count: 1, bandwidth: 1 GB/s, latency: 1 us}}\n"
      "fabric: {kind: switch}\n");
  const Sketch sketch = make_sketch(t, false);
  ASSERT_EQ(sketch.hosts.size(), 2U);
  EXPECT_EQ(sketch.hosts[0].count, 3);
  EXPECT_EQ(sketch.hosts[1].count, 2);
}

TEST(Draw, DotNamesHostsAndLinkClasses) {
  const std::string dot = draw_dot(parse(testing::pcie_nodes(2, 1, "{kind: switch}")));
  EXPECT_NE(dot.find("subgraph cluster_1"), std::string::npos);
  EXPECT_NE(dot.find("label=\"node1\""), std::string::npos);
  EXPECT_NE(dot.find("nvlink"), std::string::npos);
  EXPECT_NE(dot.find("50 GB/s"), std::string::npos);
}

TEST(Draw, OtherSuffixesAreErrors) {
  try {
    draw(parse(testing::pcie_nodes(1, 1, "{kind: none}")), "cluster.pdf");
    FAIL() << "drew a PDF";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(),
                 "error: cannot draw to 'cluster.pdf'\n"
                 "hint: name a file that ends in .dot or .svg\n");
  }
}

}  // namespace
}  // namespace moesim
