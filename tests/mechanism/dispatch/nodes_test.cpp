// SPDX-License-Identifier: Apache-2.0
// Dispatches in two hops know nodes from everything else that a cluster is made of: data centers
// above them, sockets inside.
#include <gtest/gtest.h>

#include <string>

#include "sim/base/unsuitable.h"
#include "sim/topology/reader.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

/// 16 GPUs on nodes of four, of one data center or of two.
Topology in_data_centers(int count) {
  return std::move(
      parse_topology(
          fmt::format("source: test\nexchange_overhead: 0 us\n{}nodes: {}\nnode:\n  gpu: h100-sxm\n"
                      "  gpus: 4\n  nvlink: {{kind: switch, bandwidth: 400 GB/s, latency: 0 us}}\n"
                      "  nics: {{count: 4, bandwidth: 50 GB/s, latency: 0 us}}\n"
                      "fabric: {{kind: switch}}\n{}",
                      count > 1 ? "data_centers: 2\n" : "", 4 / count,
                      count > 1 ? "wan: {kind: hub, bandwidth: 50 GB/s, latency: 50 us}\n" : ""),
          "test.yaml")
          .topology);
}

const std::vector<std::string>& two_hop_dispatches() {
  static const std::vector<std::string> all = {"deepep-normal",
                                               "deepep-v2",
                                               "hybrid-ep",
                                               "{kind: two-hop, order: intra-first}",
                                               "{kind: two-hop, order: inter-first, padding: max}",
                                               "{kind: hierarchical, levels: hosts, depth: 2}"};
  return all;
}

TEST(Nodes, AreTheSameInOneDataCenterAndInTwo) {
  const Topology one = in_data_centers(1), two = in_data_centers(2);
  ASSERT_EQ(EpGroups(one, 16).ranks(0).depth(), 2);
  ASSERT_EQ(EpGroups(two, 16).ranks(0).depth(), 3);
  std::mt19937 random(7);
  const Tokens tokens(16, 32, 4, 8, random_ids(random, 16 * 8, 32, 4), 16);
  MoeModel model;
  model.hidden = 128;
  model.experts = 32;
  model.top_k = 4;
  for (const std::string& text : two_hop_dispatches()) {
    const auto in_one = make_dispatch(text, one, 16, model);
    const auto in_two = make_dispatch(text, two, 16, model);
    const Dispatch &a = in_one->choose(tokens.view()), &b = in_two->choose(tokens.view());
    EXPECT_EQ(a.shape(), b.shape()) << text;
    EXPECT_EQ(a.count(tokens.view()).on_wire(), b.count(tokens.view()).on_wire()) << text;
  }
}

TEST(Nodes, AreNotSockets) {
  const TopologyFile file =
      read_topology(MOESIM_ROOT "/topologies/hiermoe-a6000.yaml", {parse_override("nodes=1")});
  ASSERT_GT(EpGroups(file.topology, 8).ranks(0).depth(), 1);
  for (const std::string& text : two_hop_dispatches()) {
    if (text.starts_with("{kind: hierarchical")) {
      EXPECT_THROW(make_dispatch(text, file.topology, 8), Unsuitable) << text;
      continue;
    }
    const auto dispatch = make_dispatch(text, file.topology, 8);
    for (const auto& option : dispatch->options()) {
      EXPECT_EQ(option->shape().phases.size(), 1U) << text;
    }
  }
}

TEST(Nodes, OfOneGpuAreNotALevel) {
  const RankSpace ranks = EpGroups(bare_nodes(4, 1), 4).ranks(0);
  EXPECT_EQ(ranks.by_hosts().depth(), 1);
  EXPECT_EQ(EpGroups(bare_nodes(1, 4), 4).ranks(0).by_hosts().depth(), 1);
  EXPECT_EQ(EpGroups(bare_nodes(2, 4), 8).ranks(0).by_hosts().level(1).size(), 2);
}

}  // namespace
}  // namespace moesim
