// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/topology/read/connections_reader.h"
#include "tests/topology/parse.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

std::string cluster_with(const std::string& connections) {
  return "name: pair\n"
         "vertices:\n"
         "  - {name: a, kind: gpu, host: x, gpu: a6000}\n"
         "  - {name: b, kind: gpu, host: y, gpu: a6000}\n"
         "links:\n"
         "  - {from: a, to: b, class: wire, bandwidth: 1 GB/s, latency: 1 us}\n" +
         connections;
}

const std::string queues = "  queues: {wire: {rate: 20 MB/s, burst: 48 KiB}}\n";
const std::string sizes = "connections:\n  buffer: 256 KiB\n  queued: 64 KiB\n  segment: 16 KiB\n";

TEST(ConnectionsOfAFile, AreThoseOfTheClassesItNames) {
  const TopologyFile file = parse_topology(
      cluster_with(
          sizes + queues +
          "  host: {cores: 2, one_machine: true, exchange_start: 6 ms, kernel_start: 1 ms, "
          "pack: 2 GB/s, carry: 3 GB/s}\n"),
      "t.yaml", {parse_override("connections.host.cores=3")});
  const auto found = file.connections;
  ASSERT_TRUE(found);
  EXPECT_EQ(found->buffer, Bytes(256 * 1024));
  EXPECT_EQ(found->queues.size(), 2);  // both directions
  EXPECT_DOUBLE_EQ(found->queues.begin()->second.rate.value, 20e6);
  EXPECT_EQ(found->queues.begin()->second.burst, Bytes(48 * 1024));
  ASSERT_TRUE(found->host);
  EXPECT_EQ(found->host->cores, 3);
  EXPECT_TRUE(found->host->one_machine);
  EXPECT_DOUBLE_EQ(found->host->exchange_start.value, 0.006);
}

TEST(ConnectionsOfAFile, MayBeOfAClassBehindOthers) {
  std::string text = cluster_with(sizes + queues);
  text.insert(text.find("  - {from: a"),
              "  - {from: a, to: b, class: first, bandwidth: 2 GB/s, latency: 1 us}\n");
  const TopologyFile file = parse_topology(text, "t.yaml");
  ASSERT_TRUE(file.connections);
  EXPECT_EQ(file.connections->queues.size(), 2);
  for (const auto& [link, queue] : file.connections->queues) {
    EXPECT_DOUBLE_EQ(file.topology.links()[link.index()].bandwidth.value, 1e9);
  }
}

TEST(ConnectionsOfAFile, AreNoneWhereItStatesNone) {
  const TopologyFile file = parse_topology(cluster_with(""), "t.yaml");
  EXPECT_FALSE(file.connections);
}

TEST(ConnectionsOfAFile, MistakesAreTold) {
  EXPECT_THAT(errors(cluster_with(sizes + "  queues: {cable: {rate: 1 MB/s, burst: 1 KiB}}\n")),
              HasSubstr("no link is of class 'cable'"));
  EXPECT_THAT(errors(cluster_with("connections:\n  buffer: 1 KiB\n  queued: 1 KiB\n"
                                  "  segment: 2 KiB\n" +
                                  queues)),
              HasSubstr("a segment is longer than 'buffer'"));
  EXPECT_THAT(errors(cluster_with(sizes + queues + "  host: {cores: 0}\n")), HasSubstr("cores"));
  EXPECT_THAT(errors(cluster_with(sizes + queues + "  windows: 1\n")), HasSubstr("windows"));
}

}  // namespace
}  // namespace moesim
