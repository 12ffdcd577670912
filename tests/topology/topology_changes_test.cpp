// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/topology_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "tests/topology/clusters.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

Topology rails(const std::vector<Override>& overrides) {
  return read_topology(data_file("topologies", "h100-rail"), overrides).topology;
}

int class_called(const Topology& topology, const std::string& name) {
  for (std::size_t c = 0; c < topology.classes().size(); ++c) {
    if (topology.classes()[c].name == name) return static_cast<int>(c);
  }
  return -1;
}

void expect_same_links(const Topology& a, const Topology& b) {
  ASSERT_EQ(a.links().size(), b.links().size());
  for (std::size_t l = 0; l < a.links().size(); ++l) {
    EXPECT_DOUBLE_EQ(a.links()[l].bandwidth.value, b.links()[l].bandwidth.value);
    EXPECT_DOUBLE_EQ(a.links()[l].latency.value, b.links()[l].latency.value);
  }
}

TEST(TopologyChanges, OfAClassAreThoseOfTheFile) {
  const Topology plain = rails({parse_override("nodes=2")});
  const Topology by_file = rails(
      {parse_override("nodes=2"), parse_override("node.nvlink.bandwidth=900 GB/s"),
       parse_override("node.nvlink.latency=0.25 us"), parse_override("exchange_overhead=6 us")});
  const int nvlink = class_called(plain, "nvlink");
  ASSERT_GE(nvlink, 0);
  const Topology by_factor =
      changed(plain, {.bandwidth = {{nvlink, 2}}, .latency = {{nvlink, 0.5}}, .overhead = 0.5});
  expect_same_links(by_factor, by_file);
  EXPECT_EQ(by_factor.exchange_overhead(), by_file.exchange_overhead());
  EXPECT_EQ(by_factor.host_count(), 2);
}

TEST(TopologyChanges, ScaleMeasuredCurves) {
  const Topology plain =
      read_topology(data_file("topologies", "h100-nccl"), {parse_override("nodes=2")}).topology;
  TopologyChanges changes;
  for (std::size_t c = 0; c < plain.classes().size(); ++c) {
    changes.bandwidth[static_cast<int>(c)] = 2;
  }
  const Topology fast = changed(plain, changes);
  for (std::size_t l = 0; l < plain.links().size(); ++l) {
    EXPECT_DOUBLE_EQ(fast.links()[l].bandwidth.value, 2 * plain.links()[l].bandwidth.value);
    if (!plain.links()[l].table) continue;
    EXPECT_NEAR(fast.links()[l].table->time(Bytes(100'000)).value,
                plain.links()[l].table->time(Bytes(100'000)).value / 2, 1e-12);
  }
}

// Four GPUs, each at a router of a ring: two ways to the opposite one, and without a cable the
// other way round. Links 0 to 7 join the routers g and g + 1, there and back.
Topology square() {
  Topology::Parts parts;
  parts.name = "square";
  parts.classes = {{"wire", Tier::fabric}};
  parts.levels = {{"cluster", {0, 0, 0, 0}, 1}};
  const auto join = [&](int from, int to) {
    for (const auto& [a, b] : {std::pair(from, to), std::pair(to, from)}) {
      parts.links.push_back({.from = VertexId(a),
                             .to = VertexId(b),
                             .bandwidth = BytesPerSecond(1e9),
                             .latency = Seconds(1e-6)});
    }
  };
  for (int g = 0; g < 4; ++g) {
    parts.vertices.push_back({"gpu" + std::to_string(g), VertexKind::gpu, g});
    parts.gpus.push_back(VertexId(g));
    parts.gpu_model.push_back("test");
  }
  for (int g = 0; g < 4; ++g) {
    parts.vertices.push_back({"router" + std::to_string(g), VertexKind::router, -1});
    join(4 + g, 4 + (g + 1) % 4);
  }
  for (int g = 0; g < 4; ++g) join(g, 4 + g);
  return Topology(std::move(parts));
}

TEST(TopologyChanges, CrowdedLinksAreFasterToo) {
  const Topology plain = parse(testing::nvswitch_nodes(2, 1, 1, "{kind: switch}"));
  Topology::Parts parts;
  parts.vertices = plain.vertices();
  parts.links = plain.links();
  parts.classes = plain.classes();
  for (const GpuId gpu : plain.all_gpus()) {
    parts.gpus.push_back(plain.vertex_of(gpu));
    parts.gpu_model.push_back("x");
  }
  for (Link& link : parts.links) link.crowded = {1, 4, BytesPerSecond(1e9)};
  TopologyChanges changes;
  for (int c = 0; c < std::ssize(parts.classes); ++c) changes.bandwidth[c] = 3;
  const Topology fast = changed(Topology(std::move(parts)), changes);
  for (const Link& link : fast.links()) EXPECT_DOUBLE_EQ(link.crowded.bandwidth.value, 3e9);
}

TEST(TopologyChanges, OverheadsGrowTogether) {
  const Topology plain = parse("exchange_overhead: 3 us\npeer_overhead: 2 us\n" +
                               testing::nvswitch_nodes(2, 1, 1, "{kind: switch}"));
  const Topology slow = changed(plain, {.overhead = 2});
  EXPECT_DOUBLE_EQ(slow.exchange_overhead().value, 6e-6);
  EXPECT_DOUBLE_EQ(slow.peer_overhead().value, 4e-6);
}

TEST(TopologyChanges, OneLinkMayBeSlower) {
  const Topology slow = changed(square(), {.link_bandwidth = {{LinkId(3), 0.5}}});
  for (std::size_t l = 0; l < slow.links().size(); ++l) {
    EXPECT_DOUBLE_EQ(slow.links()[l].bandwidth.value, l == 3 ? 0.5e9 : 1e9) << l;
  }
}

TEST(TopologyChanges, RouteAroundWhatHasFailed) {
  const Topology whole = square();
  TopologyChanges changes;
  changes.failed = {LinkId(0), LinkId(1)};
  const Topology open = changed(whole, changes);
  EXPECT_EQ(whole.paths(GpuId(0), GpuId(1)).front().links.size(), 3u);
  ASSERT_EQ(open.paths(GpuId(0), GpuId(1)).size(), 1u);
  EXPECT_EQ(open.paths(GpuId(0), GpuId(1)).front().links.size(), 5u);
  EXPECT_EQ(whole.paths(GpuId(0), GpuId(2)).size(), 2u);
  EXPECT_EQ(open.paths(GpuId(0), GpuId(2)).size(), 1u);
  changes.failed.insert({LinkId(2), LinkId(3)});
  try {
    changed(whole, changes);
    FAIL() << "no way is left";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("without the failed links: square"));
  }
}

TEST(RateWatch, SeesWhatIsAskedFor) {
  const Topology topology = rails({parse_override("nodes=2")});
  const int nvlink = class_called(topology, "nvlink"), nic = class_called(topology, "nic");
  const TopologyChanges both{.bandwidth = {{nvlink, 2}, {nic, 2}}, .overhead = 2};
  RateWatch watch(topology);
  topology.exchange_overhead();
  watch.begin();
  topology.host_of(GpuId(3));
  topology.paths(GpuId(0), GpuId(9));
  watch.end();
  EXPECT_FALSE(watch.any());
  EXPECT_EQ(watch.seen(both), TopologyChanges{});
  ByteMatrix traffic(Bytes(1));  // inside the first host
  for (int from = 0; from < topology.gpu_count(); ++from) {
    std::vector<ByteMatrix::Entry> row;
    if (from == 0) row.push_back({GpuId(1), 100});
    traffic.add_row(row);
  }
  watch.begin();
  topology.of_gpus({topology.all_gpus().begin(), topology.all_gpus().end()}).loads(traffic);
  watch.end();
  EXPECT_EQ(watch.seen(both), (TopologyChanges{.bandwidth = {{nvlink, 2}}, .overhead = 2}));
  watch.begin();
  topology.links();
  watch.end();
  EXPECT_EQ(watch.seen(both), both);
}

}  // namespace
}  // namespace moesim
