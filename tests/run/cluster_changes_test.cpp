// SPDX-License-Identifier: Apache-2.0
#include "sim/run/cluster_changes.h"

#include <gtest/gtest.h>

#include "sim/topology/connections.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

/// A node of 8 GPUs.
Inputs node_of_eight() { return open_inputs(scenario_of("alltoall")); }

const ClusterInput& node() {
  static const Inputs inputs = node_of_eight();
  return inputs.clusters[0];
}

ClusterChanges with_slow(const std::map<GpuId, double>& gpus) {
  ClusterChanges changes;
  changes.slow = gpus;
  return changes;
}

TEST(ClusterChanges, SlowGpusComputeReadAndLaunchSlower) {
  const ClusterInput slower = changed(node(), with_slow({{GpuId(1), 0.5}, {GpuId(2), 0.5}}));
  ASSERT_EQ(slower.gpus.size(), 8U);
  EXPECT_EQ(slower.gpus[0], node().gpus[0]);
  EXPECT_EQ(slower.gpus[1], slower.gpus[2]) << "they are alike";
  const GpuModel expected = changed(
      *node().gpus[1], GpuFactors{.flops = 0.5, .memory_bandwidth = 0.5, .launch = 2, .host = 1});
  const Kernel kernel = MemoryBound{Bytes(1'000'000), Bytes(0)};
  EXPECT_EQ(slower.gpus[1]->time(kernel), expected.time(kernel));
  EXPECT_GT(slower.gpus[1]->time(kernel), slower.gpus[0]->time(kernel));
}

TEST(ClusterChanges, FailedGpusLeaveTheOthers) {
  ClusterChanges changes = with_slow({{GpuId(3), 0.5}});
  changes.failed = {GpuId(0)};
  Inputs inputs = node_of_eight();
  inputs.clusters[0].costs = {2.5, 700};
  const ClusterInput less = changed(inputs.clusters[0], changes);
  EXPECT_EQ(less.costs, (GpuCosts{2.5, 700}));
  ASSERT_EQ(less.gpus.size(), 7U);
  EXPECT_EQ(less.topology.gpu_count(), 7);
  EXPECT_EQ(less.gpus[1], inputs.clusters[0].gpus[2]);
  EXPECT_NE(less.gpus[2], inputs.clusters[0].gpus[3]);
  ClusterChanges all;
  for (const GpuId gpu : node().topology.all_gpus()) all.failed.insert(gpu);
  EXPECT_THROW(changed(node(), all), Error);
}

TEST(ClusterChanges, QueuesFollowTheRatesAndTheNumbersOfTheirLinks) {
  Inputs inputs = node_of_eight();
  ClusterInput& cluster = inputs.clusters[0];
  // From the first link of a NIC on, without which GPUs reach each other over NVLink.
  const std::vector<Link>& links = cluster.topology.links();
  const auto other_class = [&](const Link& link) { return link.link_class != links[0].link_class; };
  const auto first = std::ranges::find_if(links, other_class) - links.begin();
  Connections connections;
  for (const int l : {0, 1, 3}) {
    connections.queues[LinkId(first + l)] = {BytesPerSecond(10 + l), Bytes(l)};
  }
  cluster.connections = std::make_shared<const Connections>(connections);
  ClusterChanges changes;
  changes.topology.link_bandwidth[LinkId(first + 1)] = 2;
  changes.topology.failed = {LinkId(first), LinkId(first + 2)};
  const auto queues = changed(cluster, changes).connections->queues;
  ASSERT_EQ(queues.size(), 2U);
  EXPECT_EQ(queues.at(LinkId(first)).rate.value, 2 * 11);
  EXPECT_EQ(queues.at(LinkId(first)).burst, Bytes(1));
  EXPECT_EQ(queues.at(LinkId(first + 1)).rate.value, 13);
  EXPECT_EQ(queues.at(LinkId(first + 1)).burst, Bytes(3));
}

}  // namespace
}  // namespace moesim
