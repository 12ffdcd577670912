// SPDX-License-Identifier: Apache-2.0
// EP groups against arithmetic: what a group sees of a cluster, and what is lifted from it.
#include "sim/mechanism/ep_groups.h"

#include <gtest/gtest.h>

#include "sim/topology/reader.h"
#include "sim/transport/transport.h"
#include "tests/mechanism/random_layers.h"

namespace moesim {
namespace {

/// The slots that serve seven choices of a rank for an expert, one after the other.
std::vector<SlotId> walked(const Assignment& assignment, GpuId rank, int expert) {
  AssignmentWalk walk(assignment);
  std::vector<SlotId> slots;
  for (int i = 0; i < 7; ++i) slots.push_back(walk.next(rank, ExpertId(expert)));
  return slots;
}

TEST(EpGroups, PartsOfAnAssignmentJoinToTheWhole) {
  std::mt19937 random(81);
  int split = 0;
  for (int trial = 0; trial < 200; ++trial) {
    const RandomLayer layer(random);
    const EpGroups groups(layer.topology(), layer.shape.ep);
    const Assignment& whole = layer.tokens.assignment;
    std::vector<Assignment> parts;
    for (int g = 0; g < groups.count(); ++g) {
      parts.push_back(whole.part(groups.gpu(g, GpuId(0)), groups.size()));
      const Placement& placement = parts.back().placement();
      ASSERT_EQ(placement.table(), groups.part(whole.placement().table(), g));
      for (int r = 0; r < groups.size(); ++r) {
        const int rank = g * layer.shape.ep + r;
        for (int e = 0; e < layer.experts; ++e) {
          const auto local = walked(parts.back(), GpuId(r), e);
          const auto global = walked(whole, GpuId(rank), e);
          const std::int64_t before =
              whole.placement().first_slot(GpuId(std::int64_t{g} * layer.shape.ep)).value;
          for (std::size_t i = 0; i < local.size(); ++i) {
            ASSERT_EQ(local[i].value + before, global[i].value);
          }
        }
      }
    }
    const Assignment joined = Assignment::joined(parts);
    split += joined.split() ? 1 : 0;
    ASSERT_EQ(joined.split(), whole.split());
    ASSERT_EQ(joined.placement().table(), whole.placement().table());
    for (int rank = 0; rank < layer.shape.ranks(); ++rank) {
      for (int e = 0; e < layer.experts; ++e) {
        ASSERT_EQ(walked(joined, GpuId(rank), e), walked(whole, GpuId(rank), e));
      }
    }
  }
  EXPECT_GT(split, 10);
}

/// The ranks of the first EP group by level, its hosts last.
std::vector<Communicators> levels_of(const EpGroups& groups) {
  const RankSpace& ranks = groups.ranks(0);
  std::vector<Communicators> levels;
  for (int l = 0; l < ranks.depth(); ++l) levels.push_back(ranks.level(l).groups());
  levels.push_back(ranks.hosts().groups());
  return levels;
}

TEST(EpGroups, OfAPipelineStageAreThoseOfAClusterOfItsOwn) {
  const auto nodes = [](int count) {
    const std::string text =
        "node:\n"
        "  gpu: h100-sxm\n"
        "  gpus: 4\n"
        "  nvlink: {kind: switch, bandwidth: 400 GB/s, latency: 1 us}\n"
        "  pcie: {bandwidth: 64 GB/s, latency: 2 us}\n"
        "  nics: {count: 4, bandwidth: 50 GB/s, latency: 3 us}\n"
        "fabric: {kind: rail}\n";
    return parse_topology("nodes: " + std::to_string(count) + "\n" + text, "test.yaml").topology;
  };
  const Topology whole = nodes(6), alone = nodes(2);
  std::vector<GpuId> stage, by_turns;
  for (int gpu = 8; gpu < 16; ++gpu) stage.emplace_back(gpu);
  for (int i = 0; i < 8; ++i) by_turns.emplace_back(8 + i % 4 * 2 + i / 4);
  const Topology slice = whole.of_gpus(stage);
  for (const int ep : {2, 4, 8}) {
    const EpGroups groups(slice, ep), expected(alone, ep);
    EXPECT_EQ(levels_of(groups), levels_of(expected));
    EXPECT_EQ(groups.gpus_per_host(), 4);
    EXPECT_EQ(groups.equal_blocks(), expected.equal_blocks());
  }
  // Expert tensor parallelism between neighbours: ranks of an EP group are two GPUs apart.
  const Topology apart = whole.of_gpus(by_turns);
  const EpGroups groups(apart, 4);
  EXPECT_EQ(levels_of(groups).back(), (Communicators{{GpuId(0), GpuId(1)}, {GpuId(2), GpuId(3)}}));
  EXPECT_EQ(groups.ranks(0).depth(), 2);
  EXPECT_EQ(groups.gpus_per_host(), 0);
}

TEST(EpGroups, ASlotOfAnotherGroupIsAnError) {
  // Two groups of one GPU; the second has no expert 1 and takes it from the first.
  const Placement placement(2, {{ExpertId(0), ExpertId(1)}, {ExpertId(0)}});
  EXPECT_THROW(Assignment(placement, 1).part(GpuId(1), 1), Error);
}

TEST(EpGroups, HostsAndLevelsAreThoseOfTheGroupsGpus) {
  for (const Shape& shape : small_shapes()) {
    const EpGroups groups(topology_of(shape), shape.ep);
    ASSERT_EQ(groups.count(), shape.ranks() / shape.ep);
    for (int g = 0; g < groups.count(); ++g) {
      const RankSpace& ranks = groups.ranks(g);
      ASSERT_EQ(ranks.size(), shape.ep);
      EXPECT_EQ(ranks.spread(), shape.ep > shape.gpus);
      EXPECT_EQ(ranks.shared(), shape.gpus > 1);
      for (int r = 0; r < shape.ep; ++r) {
        const int gpu = g * shape.ep + r;
        EXPECT_EQ(groups.gpu(g, GpuId(r)), GpuId(gpu));
        EXPECT_EQ(groups.rank_of(GpuId(gpu)), GpuId(r));
        EXPECT_EQ(groups.group_of(GpuId(gpu)), g);
        const int first_host = g * shape.ep / shape.gpus;
        EXPECT_EQ(ranks.hosts().group_of(GpuId(r)), gpu / shape.gpus - first_host);
      }
    }
    const auto nodes = groups.nodes();
    ASSERT_TRUE(nodes);
    EXPECT_EQ(nodes->nodes * nodes->gpus_per_node, shape.ep);
    EXPECT_EQ(nodes->gpus_per_node, std::min(shape.ep, shape.gpus));
  }
}

// 4 nodes of 4 GPUs, groups of 8: a level of nodes, whose ranks of equal index exchange across.
TEST(EpGroups, RanksOfEqualIndexAreCounterparts) {
  const EpGroups groups(topology_of({4, 4, 8}), 8);
  const RankLevel& nodes = groups.ranks(1).level(1);
  ASSERT_EQ(nodes.size(), 2);
  EXPECT_EQ(nodes.across().size(), 4u);
  EXPECT_EQ(nodes.across()[1], (std::vector<GpuId>{GpuId(1), GpuId(5)}));
  EXPECT_EQ(nodes.relay(GpuId(2), GpuId(7)), GpuId(6));
  EXPECT_EQ(groups.lifted({&nodes.across(), &nodes.across()})[5],
            (std::vector<GpuId>{GpuId(9), GpuId(13)}));
}

TEST(EpGroups, TrafficOfOneGroupIsLiftedToAll) {
  const EpGroups groups(topology_of({2, 2, 2}), 2);
  const std::int64_t bytes[] = {0, 6, 4, 0};
  const ByteMatrix all = groups.in_every_group(ByteMatrix::from_dense(2, bytes));
  EXPECT_EQ(all.at(GpuId(0), GpuId(1)), Bytes(6));
  EXPECT_EQ(all.at(GpuId(3), GpuId(2)), Bytes(4));
  EXPECT_EQ(all.total(), Bytes(20));
  EXPECT_EQ(groups.in_every_group(std::vector<int>{7, 8}), (std::vector<int>{7, 8, 7, 8}));
  const ExpertTransfer move{ExpertId(0), GpuId(0), GpuId(1), Bytes(6)};
  EXPECT_EQ(groups.traffic(groups.lifted({move}, 1)).at(GpuId(2), GpuId(3)), Bytes(6));
}

TEST(EpGroups, TransfersWithoutBytesAreNoTraffic) {
  const EpGroups groups(topology_of({2, 2, 2}), 2);
  const std::vector<ExpertTransfer> none = {{ExpertId(0), GpuId(0), GpuId(1), Bytes(0)}};
  EXPECT_EQ(groups.traffic(none).entries(), 0u);
  EXPECT_EQ(groups.traffic(none).ranks(), 4);
}

// 4 MB over a NIC of 50 GB/s: 80 us; by a transport that yields half of it after 7 us, 167 us.
TEST(EpGroups, TheTransportOfExchangesMakesTheirPredictedTime) {
  EpGroups groups(topology_of({2, 2, 2}), 2);
  const std::int64_t bytes[] = {0, 0, 4'000'000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  const ByteMatrix across = ByteMatrix::from_dense(4, bytes);
  const std::vector<GroupTraffic> traffic = {{across, groups.network().all_gpus()}};
  EXPECT_NEAR(groups.slowest(traffic).value * 1e6, 80, 1e-9);
  Transport half;
  half.start_up = TierTimes{Seconds(7e-6), Seconds(7e-6), Seconds(7e-6)};
  const BandwidthTable rates({{Bytes(1), BytesPerSecond(25e9)}});
  half.links.push_back(
      {"nic", "", BytesPerSecond(50e9), std::make_shared<const BandwidthTable>(rates), Seconds(0)});
  groups.carried_by(std::make_shared<const Transport>(half));
  EXPECT_NEAR(groups.slowest(traffic).value * 1e6, 167, 1e-9);
}

TEST(EpGroups, DegreesThatDoNotDivideTheGpusAreErrors) {
  EXPECT_THROW(EpGroups(topology_of({2, 2, 4}), 3), Error);
  EXPECT_THROW(EpGroups(topology_of({2, 2, 4}), 0), Error);
}

}  // namespace
}  // namespace moesim
