// SPDX-License-Identifier: Apache-2.0
// A slice against the whole cluster: the same links take the same bytes in the same time.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "tests/topology/clusters.h"

namespace moesim {
namespace {

std::vector<GpuId> gpus_of(std::initializer_list<int> list) {
  std::vector<GpuId> gpus;
  for (const int gpu : list) gpus.emplace_back(gpu);
  return gpus;
}

/// Some GPUs of so many; in any order if `shuffled`.
std::vector<GpuId> some_of(int count, std::mt19937& random, bool shuffled) {
  std::vector<GpuId> gpus;
  for (int gpu = 0; gpu < count; ++gpu) gpus.emplace_back(gpu);
  std::ranges::shuffle(gpus, random);
  gpus.resize(1 + random() % gpus.size());
  if (!shuffled) std::ranges::sort(gpus);
  return gpus;
}

/// Traffic of a slice written down entry by entry for the whole cluster.
ByteMatrix of_whole(const ByteMatrix& traffic, const std::vector<GpuId>& gpus, int count) {
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::int64_t> bytes(n * n, 0);
  for (std::size_t from = 0; from < gpus.size(); ++from) {
    for (std::size_t to = 0; to < gpus.size(); ++to) {
      bytes[gpus[from].index() * n + gpus[to].index()] =
          traffic.at(GpuId(static_cast<int>(from)), GpuId(static_cast<int>(to))).value;
    }
  }
  return ByteMatrix::from_dense(count, bytes);
}

void expect_equal(const LinkLoads& slice, const LinkLoads& whole) {
  EXPECT_EQ(slice.uses, whole.uses);
  EXPECT_EQ(slice.latency, whole.latency);
  EXPECT_EQ(slice.overhead, whole.overhead);
}

/// Whether two numberings put the same places together.
bool same_partition(const std::vector<int>& a, const std::vector<int>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if ((a[i] == a[j]) != (b[i] == b[j])) return false;
    }
  }
  return a.size() == b.size();
}

void check_slices(const Topology& whole, unsigned seed) {
  std::mt19937 random(seed);
  for (int round = 0; round < 8; ++round) {
    const std::vector<GpuId> gpus = some_of(whole.gpu_count(), random, round % 2 == 1);
    const Topology slice = whole.of_gpus(gpus);
    ASSERT_EQ(slice.gpu_count(), static_cast<int>(gpus.size()));
    const ByteMatrix traffic = testing::random_traffic(slice.gpu_count(), seed + 1);
    if (gpus.size() > 1) {  // one rank exchanges nothing
      expect_equal(slice.loads(traffic), whole.loads(of_whole(traffic, gpus, whole.gpu_count())));
    }

    std::vector<int> hosts, hosts_in_whole;
    for (int rank = 0; rank < slice.gpu_count(); ++rank) {
      const GpuId gpu = gpus[static_cast<std::size_t>(rank)];
      EXPECT_EQ(slice.vertex_of(GpuId(rank)), whole.vertex_of(gpu));
      EXPECT_EQ(slice.gpu_model(GpuId(rank)), whole.gpu_model(gpu));
      hosts.push_back(slice.host_of(GpuId(rank)));
      hosts_in_whole.push_back(whole.host_of(gpu));
    }
    EXPECT_TRUE(same_partition(hosts, hosts_in_whole));
    EXPECT_EQ(*std::ranges::max_element(hosts) + 1, slice.host_count());

    ASSERT_EQ(slice.levels().size(), whole.levels().size());
    for (std::size_t l = 0; l < slice.levels().size(); ++l) {
      const Level& level = slice.levels()[l];
      std::vector<int> of_whole;
      for (const GpuId gpu : gpus) of_whole.push_back(whole.levels()[l].group_of[gpu.index()]);
      EXPECT_EQ(level.name, whole.levels()[l].name);
      EXPECT_TRUE(same_partition(level.group_of, of_whole)) << level.name;
      EXPECT_TRUE(round % 2 == 1 || std::ranges::is_sorted(level.group_of));
      EXPECT_EQ(*std::ranges::max_element(level.group_of) + 1, level.groups);
    }
  }
}

TEST(Slice, LoadsAreThoseOfTheWholeOnEverySmallCluster) {
  for (const auto& [name, text] : testing::small_clusters()) {
    SCOPED_TRACE(name);
    check_slices(parse_topology(text, "test.yaml").topology, 11);
  }
}

TEST(Slice, LoadsAreThoseOfTheWholeOnEveryShippedCluster) {
  for (const auto& file :
       std::filesystem::directory_iterator(std::string(MOESIM_ROOT) + "/topologies")) {
    if (file.path().extension() != ".yaml") continue;
    if (!file.path().stem().extension().empty()) continue;
    SCOPED_TRACE(file.path().stem().string());
    const Topology whole = std::move(read_topology(file.path().string()).topology);
    if (whole.gpu_count() > 300) continue;  // a dense matrix of the whole
    check_slices(whole, 23);
  }
}

TEST(Slice, PathsTakeTheLinksOfTheWhole) {
  const Topology whole =
      parse_topology(testing::small_clusters()[8].second, "test.yaml").topology;  // rails
  const std::vector<GpuId> gpus = gpus_of({1, 6, 15});
  const Topology slice = whole.of_gpus(gpus);
  for (std::size_t from = 0; from < gpus.size(); ++from) {
    for (std::size_t to = 0; to < gpus.size(); ++to) {
      if (from == to) continue;
      const auto a = slice.paths(GpuId(static_cast<int>(from)), GpuId(static_cast<int>(to)));
      const auto b = whole.paths(gpus[from], gpus[to]);
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i].links, b[i].links);
    }
  }
}

TEST(Slice, HostsAndLevelsAreNumberedByTheirFirstRank) {
  const Topology whole =
      parse_topology(testing::nvswitch_nodes(4, 4, 1, "{kind: switch}"), "test.yaml").topology;
  ASSERT_EQ(whole.levels().size(), 2U);  // cluster, node
  const Topology upper = whole.of_gpus(gpus_of({9, 10, 12, 15}));
  EXPECT_EQ(upper.host_count(), 2);
  EXPECT_EQ(upper.host_of(GpuId(0)), 0);
  EXPECT_EQ(upper.host_of(GpuId(3)), 1);
  EXPECT_EQ(upper.levels()[1].group_of, (std::vector<int>{0, 0, 1, 1}));
  EXPECT_EQ(upper.levels()[1].groups, 2);
  // Nodes by turns.
  const Topology mixed = whole.of_gpus(gpus_of({9, 12, 10, 15}));
  EXPECT_EQ(mixed.levels()[1].group_of, (std::vector<int>{0, 1, 0, 1}));
  EXPECT_EQ(mixed.host_count(), 2);
  EXPECT_EQ(whole.of_gpus(gpus_of({12, 13, 0, 1})).levels()[1].group_of,
            (std::vector<int>{0, 0, 1, 1}));
}

TEST(Slice, OfASliceIsASliceOfTheWhole) {
  const Topology whole =
      parse_topology(testing::nvswitch_nodes(4, 4, 1, "{kind: switch}"), "test.yaml").topology;
  const Topology twice = whole.of_gpus(gpus_of({2, 5, 7, 13})).of_gpus(gpus_of({1, 3}));
  const Topology once = whole.of_gpus(gpus_of({5, 13}));
  const ByteMatrix traffic = ByteMatrix::from_dense(2, std::vector<std::int64_t>{0, 7, 9, 0});
  expect_equal(twice.loads(traffic), once.loads(traffic));
  EXPECT_EQ(twice.vertex_of(GpuId(1)), whole.vertex_of(GpuId(13)));
}

TEST(Slice, OutlivesTheWhole) {
  std::optional<Topology> whole =
      parse_topology(testing::nvswitch_nodes(2, 2, 1, "{kind: switch}"), "test.yaml").topology;
  const Topology slice = whole->of_gpus(gpus_of({1, 3}));
  whole.reset();
  const ByteMatrix traffic = ByteMatrix::from_dense(2, std::vector<std::int64_t>{0, 7, 9, 0});
  EXPECT_GT(slice.loads(traffic).latency, Seconds(0));
}

TEST(Slice, RefusesWhatIsNoSetOfGpus) {
  const Topology whole =
      parse_topology(testing::nvswitch_nodes(2, 2, 1, "{kind: switch}"), "test.yaml").topology;
  EXPECT_THROW(whole.of_gpus({}), std::invalid_argument);
  EXPECT_THROW(whole.of_gpus(gpus_of({0, 4})), std::invalid_argument);
  EXPECT_THROW(whole.of_gpus(gpus_of({1, 1})), std::invalid_argument);
}

}  // namespace
}  // namespace moesim
