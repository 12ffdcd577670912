// SPDX-License-Identifier: Apache-2.0
// NCCL's order of peers against published deltas, and what a limit on peers does to times.
#include "sim/engine/p2p_schedule.h"

#include <set>

#include "tests/engine/backends.h"

namespace moesim::test {
namespace {

// ncclP2pSchedule of NVIDIA/nccl, worked out for some numbers of groups.
TEST(P2pSchedule, GroupDeltas) {
  const auto expect = [](std::vector<int> deltas) {
    EXPECT_EQ(p2p_group_deltas(static_cast<int>(deltas.size())), deltas);
  };
  expect({0});
  expect({0, 1});
  expect({0, 1, 2});
  expect({0, 1, 3, 2});
  expect({0, 1, 3, 2, 4});
  expect({0, 1, 3, 2, 5, 4});
  expect({0, 1, 3, 6, 2, 7, 5, 4});
  expect({0, 1, 3, 6, 10, 15, 5, 12, 4, 13, 7, 2, 14, 11, 9, 8});
}

TEST(P2pSchedule, EveryDeltaOnce) {
  for (int groups = 1; groups <= 70; ++groups) {
    const std::vector<int> deltas = p2p_group_deltas(groups);
    const std::set<int> different(deltas.begin(), deltas.end());
    EXPECT_EQ(static_cast<int>(deltas.size()), groups);
    EXPECT_EQ(static_cast<int>(different.size()), groups);
    EXPECT_EQ(*different.rbegin(), groups - 1);
  }
}

/// Nodes of the given sizes, ranks in order.
std::vector<int> nodes_of(const std::vector<int>& sizes) {
  std::vector<int> nodes;
  for (std::size_t n = 0; n < sizes.size(); ++n) {
    nodes.insert(nodes.end(), static_cast<std::size_t>(sizes[n]), static_cast<int>(n));
  }
  return nodes;
}

TEST(P2pSchedule, EveryPairOnceAndOneReceiverPerSender) {
  const std::vector<std::vector<int>> clusters = {
      nodes_of({1}),       nodes_of({5}),         nodes_of({8, 8}),
      nodes_of({4, 4, 4}), nodes_of({16, 8, 24}), nodes_of({6, 2}),
      nodes_of({1, 1, 1}), {0, 1, 0, 1, 2, 2},    nodes_of({3, 5, 7})};
  for (const std::vector<int>& nodes : clusters) {
    const P2pSchedule schedule(nodes);
    std::set<std::pair<int, int>> pairs;
    for (int round = 0; round < schedule.rounds(); ++round) {
      std::set<int> receivers;
      for (int rank = 0; rank < schedule.ranks(); ++rank) {
        const int to = schedule.receiver(rank, round);
        receivers.insert(to);
        pairs.emplace(rank, to);
      }
      EXPECT_EQ(std::ssize(receivers), schedule.ranks());  // each receives from one
    }
    EXPECT_EQ(std::ssize(pairs), schedule.ranks() * schedule.ranks());
  }
}

TEST(P2pSchedule, FirstTheOwnGroupThenTheOneBeyond) {
  const P2pSchedule schedule(nodes_of({8, 8, 8, 8}));
  EXPECT_EQ(schedule.receiver(10, 0), 10);
  EXPECT_EQ(schedule.receiver(10, 1), 11);
  EXPECT_EQ(schedule.receiver(10, 7), 9);
  EXPECT_EQ(schedule.receiver(10, 8), 18);
  EXPECT_EQ(schedule.receiver(10, 16), 2);  // delta 3: group 4 mod 4
}

/// The pairs that begin when all join, one after the other.
std::vector<PeerOrder::Pair> join_all(PeerOrder& order, const std::vector<GpuId>& gpus) {
  std::vector<PeerOrder::Pair> starting;
  for (const GpuId gpu : gpus) {
    for (const PeerOrder::Pair& pair : order.join(gpu)) starting.push_back(pair);
  }
  return starting;
}

// GPUs 0 to 3 of one node, one peer at a time: each round is one ring step.
TEST(PeerOrder, ServesOneRoundAfterTheOther) {
  const ByteMatrix all =
      matrix_of(3, {{0, 1, 1}, {0, 2, 1}, {1, 2, 1}, {1, 0, 1}, {2, 0, 1}, {2, 1, 1}});
  const std::vector<GpuId> gpus = {GpuId(0), GpuId(1), GpuId(2)};
  const auto pair = [](int from, int to) { return PeerOrder::Pair(GpuId(from), GpuId(to)); };
  using Pairs = std::vector<PeerOrder::Pair>;
  PeerOrder order({all, gpus}, {0, 0, 0}, 1);
  EXPECT_EQ(join_all(order, gpus), (Pairs{pair(0, 1), pair(1, 2), pair(2, 0)}));
  EXPECT_EQ(order.end(pair(0, 1)), Pairs{});  // GPU 0 still receives, GPU 1 still sends
  EXPECT_EQ(order.end(pair(1, 2)), Pairs{});  // GPU 1 is done, but whom it serves next is not
  EXPECT_EQ(order.end(pair(2, 0)), (Pairs{pair(2, 1), pair(0, 2), pair(1, 0)}));
}

// 0 sends to 1, 1 to 2; GPU 3 moves nothing.
TEST(PeerOrder, PairsBeginWhenBothHaveJoinedAndAGpuIsDoneWithItsOwn) {
  const ByteMatrix chain = matrix_of(4, {{0, 1, 1}, {1, 2, 1}});
  const PeerOrder::Pair first(GpuId(0), GpuId(1)), second(GpuId(1), GpuId(2));
  using Pairs = std::vector<PeerOrder::Pair>;
  const Group gpus = Group::first(4);
  PeerOrder order({chain, gpus}, {0, 0, 0, 0}, 0);
  EXPECT_FALSE(order.done(GpuId(3)));  // has not joined
  EXPECT_EQ(order.join(GpuId(3)), Pairs{});
  EXPECT_TRUE(order.done(GpuId(3)));
  EXPECT_EQ(order.join(GpuId(1)), Pairs{});
  EXPECT_EQ(order.join(GpuId(0)), Pairs{first});
  EXPECT_EQ(order.end(first), Pairs{});
  EXPECT_TRUE(order.done(GpuId(0)));
  EXPECT_FALSE(order.done(GpuId(1)));  // has not sent to 2
  EXPECT_EQ(order.join(GpuId(2)), Pairs{second});
  EXPECT_EQ(order.end(second), Pairs{});
  EXPECT_TRUE(order.done(GpuId(1)));
  EXPECT_TRUE(order.done(GpuId(2)));
}

TEST(PeerOrder, MembersMayBeAnyGpus) {
  const ByteMatrix one = matrix_of(2, {{1, 0, 1}});
  const std::vector<GpuId> gpus = {GpuId(3), GpuId(7)};
  const PeerOrder::Pair pair(gpus[1], gpus[0]);
  PeerOrder order({one, gpus}, {0, 0}, 0);
  EXPECT_EQ(join_all(order, gpus), std::vector<PeerOrder::Pair>{pair});
  EXPECT_FALSE(order.done(gpus[0]));
  EXPECT_TRUE(order.end(pair).empty());
  EXPECT_TRUE(order.done(gpus[0]) && order.done(gpus[1]));
}

TEST(PeerOrder, MovesEveryPairOnce) {
  std::mt19937 random(5);
  std::vector<GpuId> gpus;
  for (int g = 0; g < 24; ++g) gpus.emplace_back(g);
  for (const int peers : {0, 1, 4, 8, 24}) {
    ByteMatrix traffic;
    std::vector<std::uint32_t> row(24);
    std::set<PeerOrder::Pair> expected, moved;
    for (int from = 0; from < 24; ++from) {
      for (std::size_t to = 0; to < 24; ++to) {
        row[to] = static_cast<std::uint32_t>(random() % 3);
        if (row[to] > 0 && GpuId(from).index() != to) {
          expected.insert({GpuId(from), GpuId(static_cast<std::int64_t>(to))});
        }
      }
      traffic.add_dense_row(row);
    }
    PeerOrder order({traffic, gpus}, nodes_of({8, 16}), peers);
    std::vector<PeerOrder::Pair> open = join_all(order, gpus);
    while (!open.empty()) {  // ends them in random order
      std::swap(open[random() % open.size()], open.back());
      const PeerOrder::Pair pair = open.back();
      open.pop_back();
      EXPECT_TRUE(moved.insert(pair).second);
      for (const PeerOrder::Pair& next : order.end(pair)) open.push_back(next);
    }
    EXPECT_EQ(moved, expected) << peers << " peers";
    for (const GpuId gpu : gpus) EXPECT_TRUE(order.done(gpu)) << gpu.value;
  }
}

double flow_time(const Topology& topology, const ByteMatrix& traffic, int peers) {
  PlanWriter w(topology.gpu_count());
  w.traffic(all_of(topology.gpu_count()), traffic);
  const auto backend =
      make_flow_backend(topology, test_gpus(topology.gpu_count()), {.peers = peers});
  return backend->run(w.plan()).makespan.value;
}

// The star's GPUs are nodes of their own: 50 MB take 1 ms, a route 5 us, and the deltas of four
// groups are 0, 1, 3, 2.
TEST(PeersAtOnce, ClosedFormsOnFourGpus) {
  const Topology topology = star(4);
  const ByteMatrix ring = matrix_of(4, {{0, 1, 50'000'000}, {1, 2, 50'000'000}});
  EXPECT_NEAR(flow_time(topology, ring, 1), 1.005e-3, 1e-9);  // one round
  // Rounds of delta 1 and 3: GPU 0 sends to 1, then to 3.
  const ByteMatrix two = matrix_of(4, {{0, 1, 50'000'000}, {0, 3, 50'000'000}});
  EXPECT_NEAR(flow_time(topology, two, 1), 2.010e-3, 1e-9);
  EXPECT_NEAR(flow_time(topology, two, 0), 2.005e-3, 1e-9);
  // GPU 3 receives 25 MB in round 1 (from 2), waits for GPU 0's 50 MB to 1, then hears from it.
  const ByteMatrix held =
      matrix_of(4, {{0, 1, 50'000'000}, {2, 3, 25'000'000}, {0, 3, 25'000'000}});
  EXPECT_NEAR(flow_time(topology, held, 1), 1.510e-3, 1e-9);
  EXPECT_NEAR(flow_time(topology, held, 0), 1.505e-3, 1e-9);
}

TEST(PeersAtOnce, AllPeersAtOnceIsNoLimit) {
  std::mt19937 random(3);
  const Topology topology = nodes_of_8(2);
  const ByteMatrix traffic = uneven(all_of(16), 16, 1e6, 4, random);
  EXPECT_NEAR(flow_time(topology, traffic, 16) / flow_time(topology, traffic, 0), 1, 1e-6);
}

// With 4 peers at once uneven rows leave ports idle; where one receiver dominates, its port is busy
// throughout, whatever the order.
TEST(PeersAtOnce, FewPeersCostTimeUnlessOneReceiverDominates) {
  const Topology topology = nodes_of_8(4);
  std::mt19937 random(7);
  const ByteMatrix balanced = uneven(all_of(32), 32, 1e6, 1, random);
  EXPECT_GT(flow_time(topology, balanced, 4) / flow_time(topology, balanced, 0), 1.05);
  std::vector<Transfer> to_one;
  for (int from = 0; from < 32; ++from) {
    for (int to = 0; to < 32; ++to) {
      if (from != to) to_one.push_back({from, to, to == 5 ? 20'000'000 : 100'000});
    }
  }
  const ByteMatrix dominated = matrix_of(32, to_one);
  EXPECT_NEAR(flow_time(topology, dominated, 4) / flow_time(topology, dominated, 0), 1, 0.15);
}

TEST(PeersAtOnce, OverlappingExchangesAllEnd) {
  const Topology topology = nodes_of_8(2);
  std::mt19937 random(11);
  PlanWriter w(16);
  w.traffic(all_of(16), uneven(all_of(16), 16, 1e6, 4, random));
  w.traffic({0, 3, 9, 12}, uneven({0, 3, 9, 12}, 16, 1e6, 4, random), {}, Stream::param);
  w.traffic({1, 2}, matrix_of(16, {}), {}, Stream::param);
  const auto backend = make_flow_backend(topology, test_gpus(16), {.peers = 8});
  const Timeline timeline = backend->run(w.plan());
  EXPECT_EQ(timeline.ops.size(), 3U);
  EXPECT_EQ(timeline.ops, backend->run(w.plan()).ops);
}

}  // namespace
}  // namespace moesim::test
