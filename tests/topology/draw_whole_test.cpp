// SPDX-License-Identifier: Apache-2.0
// Whole drawings of two small clusters: one in full, one of look-alikes.
#include <gtest/gtest.h>

#include "sim/topology/show/draw.h"
#include "sim/topology/show/sketch.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

/// From the legend's link classes on.
std::string drawn(const std::string& text) {
  const std::string dot = draw_dot(parse(text));
  return dot.substr(dot.find("</TR>\n", dot.find("latency</TD>")) + 6);
}

TEST(WholeDrawing, SmallClustersShowEveryVertexAndCable) {
  EXPECT_EQ(
      drawn(R"(nodes: 2
node:
  gpu: x
  gpus: 2
  nvlink: {kind: pairs, bandwidth: 50 GB/s, latency: 1 us}
  nics: {count: 1, bandwidth: 10 GB/s, latency: 3 us}
  pcie: {bandwidth: 25 GB/s, latency: 2 us}
fabric: {kind: leaf-spine, nodes_per_leaf: 1, spines: 2, latency: 1 us}
)"),
      R"(<TR><TD ALIGN="LEFT"><FONT COLOR="#1b7f5c"><B>&#9473;&#9473; nvlink</B></FONT></TD><TD ALIGN="RIGHT">50 GB/s</TD><TD ALIGN="RIGHT">1 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#b4552d"><B>&#9473;&#9473; pcie</B></FONT></TD><TD ALIGN="RIGHT">25 GB/s</TD><TD ALIGN="RIGHT">2 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#2f6db5"><B>&#9473;&#9473; nic</B></FONT></TD><TD ALIGN="RIGHT">10 GB/s</TD><TD ALIGN="RIGHT">3 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#17527a"><B>&#9473;&#9473; leaf-spine</B></FONT></TD><TD ALIGN="RIGHT">5 GB/s</TD><TD ALIGN="RIGHT">1 us</TD></TR>
</TABLE>>;
  subgraph cluster_0 {
  label="node0"; style="rounded,filled"; color="#b8b8b8"; fillcolor="#f7f7f4";
  v0 [label="gpu0", shape=box, fillcolor="#bfe3cf"];
  v1 [label="gpu1", shape=box, fillcolor="#bfe3cf"];
  v2 [label="socket0", shape=box, fillcolor="#e6c9e8"];
  v3 [label="nic0", shape=box, fillcolor="#c9dcf2"];
  {rank=same; edge [style=invis]; v0 -> v1}
  }
  subgraph cluster_1 {
  label="node1"; style="rounded,filled"; color="#b8b8b8"; fillcolor="#f7f7f4";
  v4 [label="gpu0", shape=box, fillcolor="#bfe3cf"];
  v5 [label="gpu1", shape=box, fillcolor="#bfe3cf"];
  v6 [label="socket0", shape=box, fillcolor="#e6c9e8"];
  v7 [label="nic0", shape=box, fillcolor="#c9dcf2"];
  {rank=same; edge [style=invis]; v4 -> v5}
  }
  v8 [label="leaf0", shape=box, fillcolor="#a9c7ea"];
  v9 [label="leaf1", shape=box, fillcolor="#a9c7ea"];
  v10 [label="spine0", shape=box, fillcolor="#8fb4e0"];
  v11 [label="spine1", shape=box, fillcolor="#8fb4e0"];
  v0 -> v1 [color="#1b7f5c", constraint=false];
  v2 -> v0 [color="#b4552d"];
  v2 -> v1 [color="#b4552d"];
  v3 -> v2 [color="#b4552d"];
  v8 -> v3 [color="#2f6db5"];
  v4 -> v5 [color="#1b7f5c", constraint=false];
  v6 -> v4 [color="#b4552d"];
  v6 -> v5 [color="#b4552d"];
  v7 -> v6 [color="#b4552d"];
  v9 -> v7 [color="#2f6db5"];
  v10 -> v8 [color="#17527a"];
  v11 -> v8 [color="#17527a"];
  v10 -> v9 [color="#17527a"];
  v11 -> v9 [color="#17527a"];
}
)");
}

TEST(WholeDrawing, LookAlikesOfADragonflyAreOneRouter) {
  EXPECT_EQ(
      drawn(R"(nodes: 16
node:
  gpu: x
  gpus: 2
  nvlink: {kind: mesh, bandwidth: 50 GB/s, latency: 1 us}
  nics: {count: 2, bandwidth: 10 GB/s, latency: 3 us}
  pcie: {bandwidth: 25 GB/s, latency: 2 us}
fabric: {kind: dragonfly, groups: 4, routers: 4, nodes_per_router: 1, local: {bandwidth: 5 GB/s, latency: 1 us}, global: {bandwidth: 7 GB/s, latency: 2 us}}
)"),
      R"(<TR><TD ALIGN="LEFT"><FONT COLOR="#1b7f5c"><B>&#9473;&#9473; nvlink</B></FONT></TD><TD ALIGN="RIGHT">50 GB/s</TD><TD ALIGN="RIGHT">1 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#b4552d"><B>&#9473;&#9473; pcie</B></FONT></TD><TD ALIGN="RIGHT">25 GB/s</TD><TD ALIGN="RIGHT">2 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#4c7d8c"><B>&#9473;&#9473; local</B></FONT></TD><TD ALIGN="RIGHT">5 GB/s</TD><TD ALIGN="RIGHT">1 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#7b5ea7"><B>&#9473;&#9473; global</B></FONT></TD><TD ALIGN="RIGHT">7 GB/s</TD><TD ALIGN="RIGHT">2 us</TD></TR>
<TR><TD ALIGN="LEFT"><FONT COLOR="#2f6db5"><B>&#9473;&#9473; nic</B></FONT></TD><TD ALIGN="RIGHT">10 GB/s</TD><TD ALIGN="RIGHT">3 us</TD></TR>
</TABLE>>;
  subgraph cluster_0 {
  label="node0, one of 12 alike"; style="rounded,filled"; color="#b8b8b8"; fillcolor="#f7f7f4";
  v0 [label="gpu0", shape=box, fillcolor="#bfe3cf"];
  v1 [label="gpu1", shape=box, fillcolor="#bfe3cf"];
  v2 [label="nic0", shape=box, fillcolor="#c9dcf2"];
  v3 [label="nic1", shape=box, fillcolor="#c9dcf2"];
  {rank=same; edge [style=invis]; v0 -> v1}
  }
  subgraph cluster_1 {
  label="node3, one of 4 alike"; style="rounded,filled"; color="#b8b8b8"; fillcolor="#f7f7f4";
  v4 [label="gpu0", shape=box, fillcolor="#bfe3cf"];
  v5 [label="gpu1", shape=box, fillcolor="#bfe3cf"];
  v6 [label="nic0", shape=box, fillcolor="#c9dcf2"];
  v7 [label="nic1", shape=box, fillcolor="#c9dcf2"];
  {rank=same; edge [style=invis]; v4 -> v5}
  }
  v8 [label="router ×12\n2 local each\n1 global each", shape=ellipse, fillcolor="#f0dc9a", penwidth=2.2];
  v9 [label="router ×4", shape=ellipse, fillcolor="#f0dc9a", penwidth=2.2];
  v0 -> v1 [color="#1b7f5c", constraint=false];
  v2 -> v0 [color="#b4552d"];
  v3 -> v1 [color="#b4552d"];
  v8 -> v2 [color="#2f6db5"];
  v8 -> v3 [color="#2f6db5"];
  v4 -> v5 [color="#1b7f5c", constraint=false];
  v6 -> v4 [color="#b4552d"];
  v7 -> v5 [color="#b4552d"];
  v9 -> v6 [color="#2f6db5"];
  v9 -> v7 [color="#2f6db5"];
  v8 -> v9 [color="#4c7d8c", constraint=false];
}
)");
}

TEST(WholeDrawing, MoreThan64VerticesAreFolded) {
  const auto folds = [](int nodes) {  // of 7 vertices, and a switch
    return draw_dot(parse(testing::nvswitch_nodes(nodes, 4, 2, "{kind: switch}"))).find("alike") !=
           std::string::npos;
  };
  EXPECT_FALSE(folds(9));
  EXPECT_TRUE(folds(10));
}

TEST(Sketch, ManyGpusOfAHostAreOne) {
  const Sketch sketch =
      make_sketch(parse("nodes: 3\nnode:\n  gpu: x\n  gpus: 18\n"
                        "  nvlink: {kind: switch, bandwidth: 50 GB/s, latency: 1 us}\n"
                        "  pcie: {bandwidth: 25 GB/s, latency: 2 us}\n"
                        "  nics: {count: 9, bandwidth: 10 GB/s, latency: 3 us}\n"
                        "fabric: {kind: switch}\n"),
                  false);
  ASSERT_EQ(sketch.nodes.size(), 4U);
  EXPECT_EQ(sketch.nodes[0].label, "gpu ×18");
  EXPECT_EQ(sketch.nodes[1].label, "nvswitch");
  EXPECT_EQ(sketch.nodes[2].label, "nic ×9");
  EXPECT_EQ(sketch.nodes[3].label, "switch");
  ASSERT_EQ(sketch.edges.size(), 3U);
  // GPUs and NVSwitch, GPUs and NICs, NICs and the switch: cables at each vertex of both ends.
  EXPECT_DOUBLE_EQ(sketch.edges[0].per_a, 1);
  EXPECT_DOUBLE_EQ(sketch.edges[0].per_b, 18);
  EXPECT_DOUBLE_EQ(sketch.edges[1].per_a, 1);
  EXPECT_DOUBLE_EQ(sketch.edges[1].per_b, 2);
  EXPECT_DOUBLE_EQ(sketch.edges[2].per_a, 1);
  EXPECT_DOUBLE_EQ(sketch.edges[2].per_b, 27);
}

TEST(Sketch, CablesOfOneWayPointWhereTheyGo) {
  const Sketch sketch = make_sketch(
      parse("vertices:\n"
            "  - {name: s, kind: leaf}\n  - {name: a, kind: gpu, host: h, gpu: x}\n"
            "  - {name: b, kind: gpu, host: h, gpu: x}\n"
            "links:\n"
            "  - {from: b, to: a, class: c, bandwidth: 1 GB/s, latency: 1 us}\n"
            "  - {from: a, to: s, class: d, bandwidth: 1 GB/s, latency: 1 us, one_way: true}\n"),
      true);
  ASSERT_EQ(sketch.edges.size(), 2U);
  EXPECT_FALSE(sketch.edges[0].one_way);
  EXPECT_TRUE(sketch.edges[1].one_way);
  EXPECT_EQ(sketch.nodes[sketch.edges[1].a].label, "a");
  EXPECT_EQ(sketch.nodes[sketch.edges[1].b].label, "s");
}

}  // namespace
}  // namespace moesim
