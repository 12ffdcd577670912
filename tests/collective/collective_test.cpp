// SPDX-License-Identifier: Apache-2.0
// Bytes of collectives by hand, and their conservation.
#include "sim/collective/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

#include "sim/base/id_vector.h"
#include "sim/collective/ring.h"
#include "sim/collective/trees.h"

namespace moesim {
namespace {

std::vector<std::int64_t> sent(const ByteMatrix& traffic) {
  std::vector<std::int64_t> bytes;
  for (const GpuId gpu : ids<GpuId>(traffic.ranks())) {
    bytes.push_back(0);
    for (const auto& entry : traffic.row(gpu)) bytes.back() += traffic.bytes(entry).value;
  }
  return bytes;
}

std::vector<std::int64_t> received(const ByteMatrix& traffic) { return sent(traffic.transposed()); }

std::vector<std::int64_t> each(int members, std::int64_t bytes) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(members), bytes);
}

/// Bytes between nodes by the member that sends them.
std::vector<std::int64_t> leaving(const ByteMatrix& traffic, const std::vector<int>& node_of) {
  std::vector<std::int64_t> bytes;
  for (const GpuId gpu : ids<GpuId>(traffic.ranks())) {
    bytes.push_back(0);
    for (const auto& entry : traffic.row(gpu)) {
      if (node_of[entry.to.index()] == node_of[gpu.index()]) continue;
      bytes.back() += traffic.bytes(entry).value;
    }
  }
  return bytes;
}

TEST(RingTraffic, HalfGoesEitherWay) {
  // A ring of GPUs 0, 3, 4 and 7; three units each.
  const ByteMatrix ring = ring_traffic({{GpuId(0), GpuId(3), GpuId(4), GpuId(7)}}, 8, Bytes(10), 3);
  EXPECT_EQ(ring.at(GpuId(0), GpuId(3)), Bytes(20));
  EXPECT_EQ(ring.at(GpuId(0), GpuId(7)), Bytes(10));
  EXPECT_EQ(ring.at(GpuId(7), GpuId(0)), Bytes(20));
  EXPECT_EQ(ring.at(GpuId(7), GpuId(4)), Bytes(10));
  EXPECT_EQ(ring.total(), Bytes(4 * 30));
}

TEST(RingTraffic, AUnitThatCannotBeHalvedGoesOneWay) {
  const ByteMatrix ring = ring_traffic({{GpuId(0), GpuId(1), GpuId(2)}}, 3, Bytes(10), 1);
  for (const GpuId gpu : ids<GpuId>(3)) EXPECT_EQ(ring.row(gpu).size(), 1U);
}

TEST(AllGather, OfPartsInDifferentSizes) {
  // Each member sends all parts but its neighbour's, half of a part either way.
  const CollectiveTraffic of_three = all_gather({6, 0, 3}, Bytes(10));
  EXPECT_EQ(of_three.rounds, 2);
  EXPECT_EQ(received(of_three.traffic), (std::vector<std::int64_t>{30, 90, 60}));
  EXPECT_EQ(of_three.traffic.at(GpuId(0), GpuId(1)), Bytes(50));  // 3 of 6 and 2 of 3
  EXPECT_EQ(of_three.traffic.at(GpuId(0), GpuId(2)), Bytes(30));
  for (const int members : {1, 2, 5}) {
    const CollectiveTraffic equal = all_gather(each(members, 4), Bytes(10));
    EXPECT_EQ(sent(equal.traffic), sent(all_gather(one_node(members), Bytes(40)).traffic));
    EXPECT_EQ(equal.rounds, all_gather(one_node(members), Bytes(40)).rounds);
  }
}

TEST(RingTraffic, TwoGpusAreEachOthersBothNeighbours) {
  const ByteMatrix ring = ring_traffic({{GpuId(0), GpuId(1)}}, 2, Bytes(10), 3);
  EXPECT_EQ(ring.at(GpuId(0), GpuId(1)), Bytes(30));
  EXPECT_EQ(ring.at(GpuId(1), GpuId(0)), Bytes(30));
}

TEST(Collective, RingsMoveWhatTheyMust) {
  for (int n = 2; n <= 9; ++n) {
    const CollectiveTraffic gather = all_gather(one_node(n), Bytes(100));
    EXPECT_EQ(gather.rounds, n - 1);
    EXPECT_EQ(sent(gather.traffic), each(n, (n - 1) * 100));
    EXPECT_EQ(received(gather.traffic), each(n, (n - 1) * 100));
    EXPECT_EQ(reduce_scatter(one_node(n), Bytes(100)), gather);
    const CollectiveTraffic reduce = all_reduce(one_node(n), Bytes(n * 100));
    EXPECT_EQ(reduce.rounds, 2 * (n - 1));
    EXPECT_EQ(sent(reduce.traffic), each(n, 2 * (n - 1) * 100));
    EXPECT_EQ(received(reduce.traffic), each(n, 2 * (n - 1) * 100));
  }
}

TEST(Collective, EveryMemberOfANodeCarriesItsShareOut) {
  // Two nodes of four; an all-reduce of 800 bytes passes 1,400 on, a quarter of it by each ring.
  const std::vector<int> node_of = {0, 0, 0, 0, 1, 1, 1, 1};
  const CollectiveTraffic reduce = all_reduce(by_node(node_of), Bytes(800));
  EXPECT_EQ(reduce.rounds, 14);
  EXPECT_EQ(sent(reduce.traffic), each(8, 1400));
  EXPECT_EQ(leaving(reduce.traffic, node_of), each(8, 350));
  // In two levels the 800 bytes leave a node once: 2 x 1/2 of a quarter by each member.
  const CollectiveTraffic levels = hierarchical_all_reduce(by_node(node_of), Bytes(800));
  EXPECT_EQ(levels.rounds, 2 * 3 + 2 * 1);
  EXPECT_EQ(leaving(levels.traffic, node_of), each(8, 200));
  EXPECT_EQ(sent(levels.traffic), each(8, 2 * 3 * 200 + 200));
  EXPECT_EQ(received(levels.traffic), each(8, 1400));
  const CollectiveTraffic gather = hierarchical_all_gather(by_node(node_of), Bytes(100));
  EXPECT_EQ(gather.rounds, 3 + 1);
  EXPECT_EQ(sent(gather.traffic), each(8, 700));
  EXPECT_EQ(hierarchical_reduce_scatter(by_node(node_of), Bytes(100)), gather);
  EXPECT_THROW(hierarchical_all_gather(by_node({0, 0, 1}), Bytes(1)), std::invalid_argument);
}

TEST(Collective, AllMoveTheLeastThatAnAllReduceNeeds) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    const int nodes = 1 + static_cast<int>(random() % 6), size = 1 + static_cast<int>(random() % 5);
    const int n = nodes * size;
    if (n == 1) continue;
    std::vector<int> node_of;
    for (int m = 0; m < n; ++m) node_of.push_back(m / size);
    const Bytes bytes(std::int64_t{2} * n * size * 60);
    const MemberNodes groups = by_node(node_of);
    for (const CollectiveTraffic& reduce :
         {all_reduce(groups, bytes), hierarchical_all_reduce(groups, bytes),
          tree_all_reduce(groups, bytes)}) {
      EXPECT_EQ(reduce.traffic.total(), std::int64_t{2} * (n - 1) * bytes);
      EXPECT_EQ(sent(reduce.traffic), received(reduce.traffic));
    }
    EXPECT_EQ(sent(all_reduce(groups, bytes).traffic), each(n, 2 * (n - 1) * bytes.value / n));
    EXPECT_EQ(sent(hierarchical_all_reduce(groups, bytes).traffic),
              each(n, 2 * (n - 1) * bytes.value / n));
  }
}

TEST(Collective, PartsArePaddedToWholeBytes) {
  // 10 bytes in parts of 4 by 3 members, who pass 4 of them on.
  EXPECT_EQ(sent(all_reduce(one_node(3), Bytes(10)).traffic), each(3, 4 * 4));
  // Two rings, each with parts of 2 of 3 bytes.
  EXPECT_EQ(sent(all_gather(by_node({0, 0, 1, 1}), Bytes(3)).traffic), each(4, 3 * 2 * 2));
}

TEST(Collective, NodesMayBeOfDifferentSizes) {
  const std::vector<int> node_of = {0, 0, 0, 1, 1};
  const CollectiveTraffic gather = all_gather(by_node(node_of), Bytes(100));
  EXPECT_EQ(sent(gather.traffic), each(5, 400));
  EXPECT_EQ(tree_all_reduce(by_node(node_of), Bytes(400)).traffic.total(), Bytes(2 * 4 * 400));
}

TEST(Collective, OneMemberOrNoBytesMoveNothing) {
  for (const CollectiveTraffic& none :
       {all_gather(one_node(1), Bytes(5)), all_reduce(one_node(1), Bytes(5)),
        hierarchical_all_reduce(one_node(1), Bytes(5)), tree_all_reduce(one_node(1), Bytes(5)),
        ring_shift(1, Bytes(5))}) {
    EXPECT_EQ(none.rounds, 0);
    EXPECT_EQ(none.traffic.ranks(), 1);
    EXPECT_EQ(none.traffic.total(), Bytes(0));
  }
  EXPECT_EQ(hierarchical_all_gather(one_node(1), Bytes(5)), all_gather(one_node(1), Bytes(5)));
  EXPECT_EQ(hierarchical_all_gather(one_node(4), Bytes(0)), all_gather(one_node(4), Bytes(0)));
  EXPECT_EQ(hierarchical_all_gather(one_node(4), Bytes(1)).traffic.total(), Bytes(4 * 3));
  EXPECT_EQ(all_reduce(one_node(4), Bytes(0)).traffic.ranks(), 4);
  EXPECT_EQ(all_reduce(one_node(4), Bytes(0)).rounds, 0);
  EXPECT_EQ(tree_all_reduce(one_node(4), Bytes(0)).rounds, 0);
  EXPECT_EQ(all_gather({0, 0, 0}, Bytes(1)).rounds, 0);
  EXPECT_EQ(two_shot_all_reduce(one_node(1), {5}, Bytes(1)).rounds, 0);
  EXPECT_EQ(two_shot_all_reduce(one_node(1), {5}, Bytes(1)).traffic.ranks(), 1);
  EXPECT_EQ(ring_shift(4, Bytes(0), 3).rounds, 0);
  EXPECT_EQ(ring_shift(4, Bytes(7), 0).rounds, 0);
}

TEST(Collective, InTwoShotsEachSendsPartsToTheirOwnersAndItsOwnToAll) {
  const CollectiveTraffic reduce = two_shot_all_reduce(one_node(3), {6, 0, 3}, Bytes(10));
  EXPECT_EQ(reduce.rounds, 2);
  EXPECT_EQ(reduce.traffic.at(GpuId(0), GpuId(1)), Bytes(60));
  EXPECT_EQ(reduce.traffic.at(GpuId(0), GpuId(2)), Bytes(90));
  EXPECT_EQ(reduce.traffic.at(GpuId(1), GpuId(2)), Bytes(30));
  EXPECT_EQ(sent(reduce.traffic), (std::vector<std::int64_t>{150, 90, 120}));
  EXPECT_EQ(received(reduce.traffic), sent(reduce.traffic));
}

/// Members 0 and 1 are on one node, 2 and 3 on the other; 0 and 2 have the first index.
TEST(Collective, BetweenNodesOnlyMembersOfEqualIndexSumTheirParts) {
  const CollectiveTraffic reduce =
      two_shot_all_reduce(by_node({0, 0, 1, 1}), {1, 20, 300, 4000}, Bytes(1));
  EXPECT_EQ(reduce.rounds, 4);
  EXPECT_EQ(reduce.traffic.at(GpuId(0), GpuId(1)), Bytes(4321));
  EXPECT_EQ(reduce.traffic.at(GpuId(0), GpuId(2)), Bytes(301));
  EXPECT_EQ(reduce.traffic.at(GpuId(1), GpuId(3)), Bytes(4020));
  EXPECT_EQ(sent(reduce.traffic), (std::vector<std::int64_t>{4622, 8341, 4622, 8341}));
  EXPECT_EQ(received(reduce.traffic), sent(reduce.traffic));
}

TEST(Collective, TwoShotsOnUnequalNodesAreThoseOfOneNode) {
  const std::vector<std::int64_t> parts = {6, 0, 3};
  EXPECT_EQ(two_shot_all_reduce(by_node({0, 0, 1}), parts, Bytes(10)),
            two_shot_all_reduce(one_node(3), parts, Bytes(10)));
}

TEST(Collective, MembersOnNodesOfTheirOwnNeedTwoRounds) {
  EXPECT_EQ(two_shot_all_reduce(by_node({0, 1, 2}), {1, 1, 1}, Bytes(10)).rounds, 2);
}

TEST(Collective, ShiftsGoRoundAsOftenAsAsked) {
  const CollectiveTraffic keys = ring_shift(4, Bytes(7), 3);
  EXPECT_EQ(keys.rounds, 3);
  EXPECT_EQ(keys.traffic.at(GpuId(3), GpuId(0)), Bytes(21));
  EXPECT_EQ(keys.traffic.total(), Bytes(84));
  EXPECT_EQ(ring_shift(4, Bytes(7), 1).traffic.total(), Bytes(28));
}

TEST(Collective, ATreeIsClimbedAndDescendedWithTheChainsInItsNodes) {
  EXPECT_EQ(tree_all_reduce(by_node({0, 0, 0, 1, 1, 1}), Bytes(600)).rounds, 2 * (1 + 2));
  EXPECT_EQ(tree_all_reduce(one_node(3), Bytes(600)).rounds, 2 * 2);
}

TEST(Trees, OfEvenNodesAreMirroredAndOfOddOnesTurned) {
  EXPECT_EQ(two_trees(4), (std::array<TreeParents, 2>{{{-1, 2, 0, 2}, {1, 3, 1, -1}}}));
  EXPECT_EQ(two_trees(3), (std::array<TreeParents, 2>{{{-1, 2, 0}, {1, -1, 0}}}));
}

TEST(Trees, AreShallowAndShareTheInnerNodes) {
  for (int n = 1; n <= 300; ++n) {
    const auto trees = two_trees(n);
    std::vector<int> children(static_cast<std::size_t>(n), 0), inner = children;
    for (const TreeParents& tree : trees) {
      std::vector<int> of_tree(static_cast<std::size_t>(n), 0);
      int roots = 0;
      for (const int parent : tree) {
        if (parent < 0) {
          ++roots;
        } else {
          ++of_tree[static_cast<std::size_t>(parent)];
        }
      }
      EXPECT_EQ(roots, 1);
      int power = 0;
      while (1 << power < n) ++power;
      EXPECT_LE(depth_of(tree), power);
      for (std::size_t node = 0; node < of_tree.size(); ++node) {
        EXPECT_LE(of_tree[node], 2);
        if (of_tree[node] > 0) ++inner[node];
      }
    }
    EXPECT_LE(std::ranges::count(inner, 2), n % 2) << n;
  }
}

}  // namespace
}  // namespace moesim
