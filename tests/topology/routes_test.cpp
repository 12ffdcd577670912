// SPDX-License-Identifier: Apache-2.0
// Routes in closed form: which links a pair uses, and what they carry.
#include <gtest/gtest.h>

#include "tests/topology/clusters.h"

namespace moesim {
namespace {

/// The vertices that the only path of a pair visits.
std::string way(const Topology& t, int from, int to) {
  const std::vector<Path> paths = t.paths(GpuId(from), GpuId(to));
  if (paths.size() != 1) return fmt::format("{} paths", paths.size());
  std::string out = t.vertices()[t.vertex_of(GpuId(from)).index()].name;
  for (const LinkId link : paths[0].links) {
    out += " " + t.vertices()[t.links()[link.index()].to.index()].name;
  }
  return out;
}

Topology parse(const std::string& text) { return parse_topology(text, "test.yaml").topology; }

TEST(Routes, PxnReachesAnotherRailByNvlink) {
  const Topology t = parse(testing::nvswitch_nodes(2, 2, 2, "{kind: rail}"));
  EXPECT_EQ(way(t, 0, 1), "node0.gpu0 node0.nvswitch node0.gpu1");
  EXPECT_EQ(way(t, 0, 2), "node0.gpu0 node0.nic0 rail0.leaf0 node1.nic0 node1.gpu0");
  EXPECT_EQ(way(t, 0, 3),
            "node0.gpu0 node0.nvswitch node0.gpu1 node0.nic1 rail1.leaf0 node1.nic1 node1.gpu1");
}

TEST(Routes, SpinesJoinRailsWhenAsked) {
  const Topology t =
      parse(testing::nvswitch_nodes(2, 2, 2, "{kind: rail, cross_rail: spine, latency: 1 us}"));
  EXPECT_EQ(way(t, 0, 3),
            "node0.gpu0 node0.nic0 rail0.leaf0 spine0 rail1.leaf0 node1.nic1 node1.gpu1");
  EXPECT_EQ(way(t, 0, 2), "node0.gpu0 node0.nic0 rail0.leaf0 node1.nic0 node1.gpu0");
}

}  // namespace
}  // namespace moesim
