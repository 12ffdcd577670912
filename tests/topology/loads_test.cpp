// SPDX-License-Identifier: Apache-2.0
// Loads against the paths they stand for: equal in aggregate, conserved at every vertex.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <utility>

#include "tests/topology/clusters.h"

namespace moesim {
namespace {

/// One of so many pairs sends, uneven bytes.
ByteMatrix sparse_traffic(int ranks, unsigned one_in, unsigned seed) {
  std::mt19937 random(seed);
  ByteMatrix traffic(Bytes(7));
  for (int from = 0; from < ranks; ++from) {
    std::vector<ByteMatrix::Entry> row;
    for (int to = 0; to < ranks; ++to) {
      if (random() % one_in > 0) continue;
      row.push_back({GpuId(to), static_cast<std::uint32_t>(random() % 100'003 + 1)});
    }
    traffic.add_row(row);
  }
  return traffic;
}

void expect_sum_over_paths(const Topology& topology, const ByteMatrix& traffic) {
  std::vector<double> expected(topology.links().size(), 0);
  std::vector<int> uses(topology.links().size(), 0);
  double latency = 0;
  double shortest = std::numeric_limits<double>::infinity();
  for (int s = 0; s < topology.gpu_count(); ++s) {
    for (const ByteMatrix::Entry& e : traffic.row(GpuId(s))) {
      if (e.to == GpuId(s)) continue;
      for (const Path& path : topology.paths(GpuId(s), e.to)) {
        double length = 0;
        for (const LinkId link : path.links) {
          expected[link.index()] += path.share * static_cast<double>(traffic.bytes(e).value);
          ++uses[link.index()];
          length += topology.links()[link.index()].latency.value;
        }
        latency = std::max(latency, length);
        shortest = std::min(shortest, length);
      }
    }
  }
  const LinkLoads loads = topology.loads(traffic);
  for (std::size_t link = 0; link < expected.size(); ++link) {
    // Every aggregate that is split may leave one odd byte per hop on a link.
    const double odd = 4.0 * topology.gpu_count();
    const LinkUse use = loads.on(LinkId(static_cast<std::int64_t>(link)));
    EXPECT_NEAR(static_cast<double>(use.bytes.value), expected[link], odd) << "link " << link;
    if (uses[link] == 0) {
      EXPECT_EQ(use.bytes, Bytes(0)) << "link " << link;
    }
    if (use.bytes > Bytes(0)) {
      EXPECT_GE(use.first.value, shortest - 1e-12) << "link " << link;
      EXPECT_LE(use.first.value, latency + 1e-12) << "link " << link;
    }
  }
  EXPECT_NEAR(loads.latency.value, latency, 1e-12);
  EXPECT_TRUE(std::ranges::is_sorted(loads.uses, {}, &LinkUse::link));
  for (const LinkUse& use : loads.uses) EXPECT_GT(use.bytes, Bytes(0));
}

class EveryCluster : public ::testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  Topology topology_ = parse_topology(GetParam().second, "test.yaml").topology;
  ByteMatrix traffic_ = testing::random_traffic(topology_.gpu_count(), 7);

  /// All GPUs or some, so that hosts have several, one or none.
  std::vector<GpuId> drawn_members(bool all, std::mt19937& random) const {
    std::vector<GpuId> members;
    for (const GpuId gpu : topology_.all_gpus()) {
      if (all || random() % 3 > 0) members.push_back(gpu);
    }
    return members;
  }
};

INSTANTIATE_TEST_SUITE_P(Loads, EveryCluster, ::testing::ValuesIn(testing::small_clusters()),
                         [](const auto& test) {
                           std::string name = test.param.first;
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

TEST_P(EveryCluster, LoadsAreTheSumOverPaths) { expect_sum_over_paths(topology_, traffic_); }

TEST_P(EveryCluster, FewOfManyPairsAreSummedAlike) {
  for (const unsigned one_in : {2U, 8U, 64U}) {
    expect_sum_over_paths(topology_, sparse_traffic(topology_.gpu_count(), one_in, one_in));
  }
}

TEST(Loads, FewOfManyPairsAreSummedOverLongRunsOfAnEntrance) {
  const Topology topology =
      parse_topology(testing::nvswitch_nodes(4, 20, 1, "{kind: switch}"), "test.yaml").topology;
  for (const unsigned one_in : {2U, 8U, 64U, 1000U}) {
    expect_sum_over_paths(topology, sparse_traffic(topology.gpu_count(), one_in, one_in));
  }
}

TEST_P(EveryCluster, WhatIsReceivedByRowsIsWhatIsSentByColumns) {
  std::mt19937 random(5);
  for (const unsigned one_in : {1U, 2U, 8U}) {
    const std::vector<GpuId> members = drawn_members(one_in == 1, random);
    const ByteMatrix back = sparse_traffic(static_cast<int>(members.size()), one_in, one_in);
    const LinkLoads received = topology_.loads({back, members, true});
    const LinkLoads sent = topology_.loads({back.transposed(), members});
    EXPECT_EQ(received.uses, sent.uses);
    EXPECT_EQ(received.latency, sent.latency);
    EXPECT_EQ(received.overhead, sent.overhead);
  }
}

/// Whether rows are compressed or have a count for every pair, zeros among them, either way.
TEST_P(EveryCluster, CountsOfAllPairsLoadAsTheirRowsDo) {
  std::mt19937 random(6);
  for (const unsigned one_in : {1U, 2U, 8U}) {
    const std::vector<GpuId> members = drawn_members(one_in == 1, random);
    const int ranks = static_cast<int>(members.size());
    const ByteMatrix rows = sparse_traffic(ranks, one_in, one_in);
    auto counts = std::make_shared<ByteMatrix::Counts>();
    for (int from = 0; from < ranks; ++from) {
      for (int to = 0; to < ranks; ++to) counts->push_back(rows.row(GpuId(from)).units(GpuId(to)));
    }
    const ByteMatrix pairs = ByteMatrix::of_counts(ranks, counts, rows.unit());
    for (const bool back : {false, true}) {
      const LinkLoads of_rows = topology_.loads({rows, members, back});
      const LinkLoads of_pairs = topology_.loads({pairs, members, back});
      EXPECT_EQ(of_pairs.uses, of_rows.uses);
      EXPECT_EQ(of_pairs.latency, of_rows.latency);
    }
  }
}

/// Rows with gaps are summed entry by entry, those without in blocks.
TEST(Loads, RowsWithoutGapsCarryWhatTheirHalvesDo) {
  const Topology topology =
      parse_topology(testing::nvswitch_nodes(4, 20, 1, "{kind: switch}"), "test.yaml").topology;
  const int gpus = topology.gpu_count();
  std::mt19937 random(11);
  for (const bool diagonal : {false, true}) {
    ByteMatrix whole, even, odd;
    for (int from = 0; from < gpus; ++from) {
      std::vector<ByteMatrix::Entry> entries, halves[2];
      for (int to = 0; to < gpus; ++to) {
        if (to == from && !diagonal) continue;
        entries.push_back({GpuId(to), static_cast<std::uint32_t>(random() % 4'000'000'000U + 1)});
        halves[to % 2].push_back(entries.back());
      }
      whole.add_row(entries);
      even.add_row(halves[0]);
      odd.add_row(halves[1]);
    }
    const LinkLoads at_once = topology.loads(whole), first = topology.loads(even),
                    second = topology.loads(odd);
    for (std::size_t l = 0; l < topology.links().size(); ++l) {
      const LinkId link(static_cast<std::int64_t>(l));
      EXPECT_EQ(at_once.on(link).bytes, first.on(link).bytes + second.on(link).bytes) << l;
    }
  }
}

TEST_P(EveryCluster, BytesAreConservedAtEveryVertex) {
  const LinkLoads loads = topology_.loads(traffic_);
  std::vector<std::int64_t> net(topology_.vertices().size(), 0);  // in less out
  for (const auto& [link, bytes, time, first, part] : loads.uses) {
    net[topology_.links()[link.index()].to.index()] += bytes.value;
    net[topology_.links()[link.index()].from.index()] -= bytes.value;
  }
  for (int s = 0; s < topology_.gpu_count(); ++s) {
    for (const ByteMatrix::Entry& e : traffic_.row(GpuId(s))) {
      net[topology_.vertex_of(GpuId(s)).index()] += traffic_.bytes(e).value;
      net[topology_.vertex_of(e.to).index()] -= traffic_.bytes(e).value;
    }
  }
  for (std::size_t v = 0; v < net.size(); ++v) {
    EXPECT_EQ(net[v], 0) << topology_.vertices()[v].name;
  }
}

TEST_P(EveryCluster, PathsRunFromGpuToGpuAndShareOne) {
  for (int s = 0; s < topology_.gpu_count(); ++s) {
    for (int d = 0; d < topology_.gpu_count(); ++d) {
      if (s == d) continue;
      double share = 0;
      for (const Path& path : topology_.paths(GpuId(s), GpuId(d))) {
        VertexId at = topology_.vertex_of(GpuId(s));
        for (const LinkId id : path.links) {
          const Link& link = topology_.links()[id.index()];
          ASSERT_EQ(link.from, at);
          at = link.to;
          const int host = topology_.vertices()[at.index()].host;
          const int from = topology_.host_of(GpuId(s)), to = topology_.host_of(GpuId(d));
          EXPECT_TRUE(host == -1 || host == from || host == to) << "transit through a host";
          if (from == to && GetParam().first != "written without inner links") {
            EXPECT_EQ(host, from) << "left the host";
          }
        }
        EXPECT_EQ(at, topology_.vertex_of(GpuId(d)));
        share += path.share;
      }
      EXPECT_NEAR(share, 1, 1e-12);
    }
  }
}

}  // namespace
}  // namespace moesim
