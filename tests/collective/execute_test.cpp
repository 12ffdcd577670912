// SPDX-License-Identifier: Apache-2.0
// Collectives executed message by message on symbols: every member ends with the sum, and the bytes
// that went from each to each are those of the traffic.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/collective/collective.h"
#include "sim/collective/trees.h"

namespace moesim {
namespace {

/// Every member's chunks, each the set of members whose values it sums up.
class Members {
 public:
  Members(int members, int chunks)
      : holds_(static_cast<std::size_t>(members)),
        moved_(static_cast<std::size_t>(members * members), 0) {
    for (std::size_t m = 0; m < holds_.size(); ++m) {
      holds_[m].assign(static_cast<std::size_t>(chunks), std::uint64_t{1} << m);
    }
  }

  using Chunks = std::vector<int>;

  /// Rounds in which each one passes a share on to the next, who adds it to its own; in the end the
  /// place i of the ring has the sum of share i + 1.
  int reduce_scatter(const std::vector<int>& ring, const std::vector<Chunks>& shares) {
    return rounds(ring, shares, 0, [](std::uint64_t& mine, std::uint64_t theirs) {
      EXPECT_EQ(mine & theirs, 0U) << "a value is added twice";
      mine |= theirs;
    });
  }
  /// The same for shares that are complete.
  int all_gather(const std::vector<int>& ring, const std::vector<Chunks>& shares) {
    return rounds(ring, shares, 1,
                  [](std::uint64_t& mine, std::uint64_t theirs) { mine = theirs; });
  }

  void add(int from, int to, int chunk) {
    std::uint64_t& mine = at(to, chunk);
    EXPECT_EQ(mine & at(from, chunk), 0U) << "a value is added twice";
    mine |= at(from, chunk);
    ++moved(from, to);
  }
  void copy(int from, int to, int chunk) {
    at(to, chunk) = at(from, chunk);
    ++moved(from, to);
  }

  void expect_sums() const {
    for (const auto& chunks : holds_) {
      for (const std::uint64_t chunk : chunks) {
        EXPECT_EQ(chunk, (std::uint64_t{1} << holds_.size()) - 1);
      }
    }
  }
  void expect_traffic(const ByteMatrix& traffic, Bytes chunk) const {
    const auto n = static_cast<int>(holds_.size());
    for (int from = 0; from < n; ++from) {
      for (int to = 0; to < n; ++to) {
        EXPECT_EQ(moved_[static_cast<std::size_t>(from * n + to)] * chunk,
                  traffic.at(GpuId(from), GpuId(to)))
            << from << " to " << to;
      }
    }
  }

 private:
  std::uint64_t& at(int member, int chunk) {
    return holds_[static_cast<std::size_t>(member)][static_cast<std::size_t>(chunk)];
  }
  std::int64_t& moved(int from, int to) {
    return moved_[static_cast<std::size_t>(from) * holds_.size() + static_cast<std::size_t>(to)];
  }

  template <class Merge>
  int rounds(const std::vector<int>& ring, const std::vector<Chunks>& shares, int first,
             const Merge& merge) {
    const auto n = static_cast<int>(ring.size());
    for (int round = 0; round < n - 1; ++round) {
      const auto before = holds_;  // all send at once
      for (int i = 0; i < n; ++i) {
        const int from = ring[static_cast<std::size_t>(i)];
        const int to = ring[static_cast<std::size_t>((i + 1) % n)];
        for (const int chunk : shares[static_cast<std::size_t>((i + first - round + n) % n)]) {
          merge(at(to, chunk),
                before[static_cast<std::size_t>(from)][static_cast<std::size_t>(chunk)]);
          ++moved(from, to);
        }
      }
    }
    return n - 1;
  }

  std::vector<std::vector<std::uint64_t>> holds_;
  std::vector<std::int64_t> moved_;
};

/// Shares of `each` consecutive chunks.
std::vector<Members::Chunks> shares_from(int first, int count, int each) {
  std::vector<Members::Chunks> shares;
  for (int s = 0; s < count; ++s) {
    shares.emplace_back(static_cast<std::size_t>(each));
    std::iota(shares.back().begin(), shares.back().end(), first + s * each);
  }
  return shares;
}

std::vector<int> reversed(std::vector<int> ring) { return {ring.rbegin(), ring.rend()}; }

TEST(Execute, RingAllReduce) {
  for (int n = 2; n <= 8; ++n) {
    Members members(n, 2 * n);  // half of the chunks go either way
    std::vector<int> ring(static_cast<std::size_t>(n));
    std::iota(ring.begin(), ring.end(), 0);
    int rounds = 0;
    for (const bool back : {false, true}) {
      const auto order = back ? reversed(ring) : ring;
      const auto shares = shares_from(back ? n : 0, n, 1);
      rounds = members.reduce_scatter(order, shares) + members.all_gather(order, shares);
    }
    members.expect_sums();
    const CollectiveTraffic traffic = all_reduce(one_node(n), Bytes(2 * n * 5));
    EXPECT_EQ(traffic.rounds, rounds);
    members.expect_traffic(traffic.traffic, Bytes(5));
  }
}

TEST(Execute, RingsThroughNodesAllReduce) {
  // Nodes {0, 1, 2} and {3, 4, 5}: three rings, each both ways.
  const std::vector<std::vector<int>> rings = {
      {0, 1, 2, 3, 4, 5}, {1, 2, 0, 4, 5, 3}, {2, 0, 1, 5, 3, 4}};
  Members members(6, 6 * 6);
  int first = 0;
  for (const auto& ring : rings) {
    for (const bool back : {false, true}) {
      const auto order = back ? reversed(ring) : ring;
      const auto shares = shares_from(first, 6, 1);
      first += 6;
      members.reduce_scatter(order, shares);
      members.all_gather(order, shares);
    }
  }
  members.expect_sums();
  members.expect_traffic(all_reduce(by_node({0, 0, 0, 1, 1, 1}), Bytes(36 * 5)).traffic, Bytes(5));
}

TEST(Execute, AllReduceInTwoLevels) {
  for (const auto& [nodes, size] : {std::pair{2, 4}, {3, 2}, {4, 1}, {1, 4}, {3, 3}}) {
    const int n = nodes * size;
    Members members(n, 2 * n);
    int rounds = 0;
    for (const bool back : {false, true}) {
      const int first = back ? n : 0;
      const auto order = [&](std::vector<int> ring) { return back ? reversed(ring) : ring; };
      std::vector<std::vector<int>> inside(static_cast<std::size_t>(nodes));
      std::vector<int> node_of;
      for (int m = 0; m < n; ++m) inside[static_cast<std::size_t>(m / size)].push_back(m);
      const auto shares = shares_from(first, size, nodes);  // of a member inside its node
      rounds = 0;
      for (const auto& node : inside) rounds = members.reduce_scatter(order(node), shares);
      int between = 0;
      for (int i = 0; i < size; ++i) {
        // Place i of a node's ring has the sum of share i + 1.
        std::vector<int> ring;
        for (int m = 0; m < nodes; ++m)
          ring.push_back(order(inside[static_cast<std::size_t>(m)])[static_cast<std::size_t>(i)]);
        const auto parts = shares_from(first + (i + 1) % size * nodes, nodes, 1);
        between = members.reduce_scatter(order(ring), parts);
        between += members.all_gather(order(ring), parts);
      }
      int gathered = 0;
      for (const auto& node : inside) gathered = members.all_gather(order(node), shares);
      rounds += between + gathered;
    }
    members.expect_sums();
    std::vector<int> node_of;
    for (int m = 0; m < n; ++m) node_of.push_back(m / size);
    const CollectiveTraffic traffic = hierarchical_all_reduce(by_node(node_of), Bytes(2 * n * 5));
    EXPECT_EQ(traffic.rounds, rounds);
    members.expect_traffic(traffic.traffic, Bytes(5));
  }
}

TEST(Execute, TreeAllReduce) {
  for (int n = 2; n <= 13; ++n) {
    Members members(n, 2);
    const auto trees = two_trees(n);
    std::vector<int> node_of(static_cast<std::size_t>(n));
    std::iota(node_of.begin(), node_of.end(), 0);
    int rounds = 0;
    for (int t = 0; t < 2; ++t) {
      const TreeParents& tree = trees[static_cast<std::size_t>(t)];
      const auto depth = [&](int node) {
        int edges = 0;
        while ((node = tree[static_cast<std::size_t>(node)]) >= 0) ++edges;
        return edges;
      };
      const int deepest = depth_of(tree);
      for (int level = deepest; level > 0; --level) {
        for (int m = 0; m < n; ++m) {
          if (depth(m) == level) members.add(m, tree[static_cast<std::size_t>(m)], t);
        }
      }
      for (int level = 1; level <= deepest; ++level) {
        for (int m = 0; m < n; ++m) {
          if (depth(m) == level) members.copy(tree[static_cast<std::size_t>(m)], m, t);
        }
      }
      rounds = std::max(rounds, 2 * deepest);
    }
    members.expect_sums();
    const CollectiveTraffic traffic = tree_all_reduce(by_node(node_of), Bytes(2 * 5));
    EXPECT_EQ(traffic.rounds, rounds);
    members.expect_traffic(traffic.traffic, Bytes(5));
  }
}

}  // namespace
}  // namespace moesim
