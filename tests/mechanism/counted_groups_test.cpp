// SPDX-License-Identifier: Apache-2.0
// A part of a cluster that reuses the counts of another part gets those that it would have counted.
#include "sim/mechanism/counted_groups.h"

#include <gtest/gtest.h>

#include "tests/mechanism/layer_tokens.h"

namespace moesim {
namespace {

constexpr int ranks_of_group = 16;

std::vector<GpuId> gpus_from(int first, int count) {
  std::vector<GpuId> gpus;
  for (int g = first; g < first + count; ++g) gpus.emplace_back(g);
  return gpus;
}

/// 24 tokens on each rank, top-4 of 32 experts.
Tokens random_tokens(unsigned seed, int gpus) {
  std::mt19937 random(seed);
  return Tokens(gpus, 32, 4, 24, random_ids(random, gpus * 24, 32, 4), ranks_of_group);
}

/// 8 hosts of 8 GPUs.
const Topology& hosts_of_stages() {
  static const TopologyFile file =
      read_topology(MOESIM_ROOT "/topologies/h100-rail.yaml", {{"nodes", "8", ""}});
  return file.topology;
}

/// A stage of the cluster and its dispatch.
struct StageOfCluster {
  StageOfCluster(int first, int gpus)
      : topology(hosts_of_stages().of_gpus(gpus_from(first, gpus))),
        dispatch(make_dispatch("{kind: hierarchical, depth: 2}", topology, ranks_of_group)) {}
  Topology topology;
  std::unique_ptr<Dispatch> dispatch;
};

void expect_same_counts(const RowCounts& a, const RowCounts& b) {
  EXPECT_EQ(a.gpu_count, b.gpu_count);
  EXPECT_EQ(a.slots, b.slots);
  EXPECT_EQ(a.phases, b.phases);
}

TEST(CountedGroups, StagesTakeTheCountsOfEachOther) {
  const StageOfCluster one(0, 32), other(32, 32);
  const Tokens tokens = random_tokens(1, 32);
  CountedGroups counted;
  const RowCounts first = one.dispatch->count(tokens.view(), counted);
  EXPECT_EQ(counted.size(), 2u);  // two EP groups with different tokens
  const RowCounts second = other.dispatch->count(tokens.view(), counted);
  EXPECT_EQ(counted.size(), 2u);
  expect_same_counts(first, one.dispatch->count(tokens.view()));
  expect_same_counts(second, other.dispatch->count(tokens.view()));
}

TEST(CountedGroups, StageOfOneGroupSharesToo) {
  const StageOfCluster one(0, ranks_of_group), other(ranks_of_group, ranks_of_group);
  const Tokens tokens = random_tokens(2, ranks_of_group);
  CountedGroups counted;
  expect_same_counts(one.dispatch->count(tokens.view(), counted),
                     one.dispatch->count(tokens.view()));
  expect_same_counts(other.dispatch->count(tokens.view(), counted),
                     one.dispatch->count(tokens.view()));
  EXPECT_EQ(counted.size(), 1u);
}

TEST(CountedGroups, OtherTokensSlotsOrNestingAreCountedAnew) {
  const StageOfCluster one(0, ranks_of_group);
  Tokens tokens = random_tokens(3, ranks_of_group);
  CountedGroups counted;
  one.dispatch->count(tokens.view(), counted);

  Tokens swapped = random_tokens(3, ranks_of_group);
  std::swap(swapped.batch.ranks[0], swapped.batch.ranks[1]);
  expect_same_counts(one.dispatch->count(swapped.view(), counted),
                     one.dispatch->count(swapped.view()));
  EXPECT_EQ(counted.size(), 2u);

  // Experts 0 and 31 change places.
  std::vector<std::vector<ExpertId>> slots;
  for (int g = 0; g < ranks_of_group; ++g) slots.push_back({ExpertId(2 * g), ExpertId(2 * g + 1)});
  std::swap(slots.front().front(), slots.back().back());
  tokens.assignment = Assignment(Placement(32, slots), ranks_of_group);
  expect_same_counts(one.dispatch->count(tokens.view(), counted),
                     one.dispatch->count(tokens.view()));
  EXPECT_EQ(counted.size(), 3u);

  // The group has 4 GPUs on each of 4 hosts instead of 8 GPUs on each of 2.
  std::vector<GpuId> halves;
  for (int host = 0; host < 4; ++host) {
    for (const GpuId gpu : gpus_from(8 * host, 4)) halves.push_back(gpu);
  }
  const Topology spread = hosts_of_stages().of_gpus(halves);
  const auto of_spread = make_dispatch("{kind: hierarchical, depth: 2}", spread, ranks_of_group);
  const RowCounts counts = of_spread->count(tokens.view(), counted);
  expect_same_counts(counts, of_spread->count(tokens.view()));
  EXPECT_EQ(counted.size(), 4u);
  EXPECT_NE(counts.phases, one.dispatch->count(tokens.view()).phases);
}

TEST(CountedLayers, KeepIdsAndOptionsApartUntilTheyAreForgotten) {
  const StageOfCluster one(0, ranks_of_group);
  const Tokens tokens = random_tokens(4, ranks_of_group);
  CountedLayers layers;
  const int ids[2] = {};
  one.dispatch->count(tokens.view(), layers.of(&ids[0], 0));
  EXPECT_EQ(layers.of(&ids[0], 0).size(), 1u);
  EXPECT_EQ(layers.of(&ids[0], 1).size(), 0u);
  EXPECT_EQ(layers.of(&ids[1], 0).size(), 0u);
  layers.forget();
  EXPECT_EQ(layers.of(&ids[0], 0).size(), 0u);
}

}  // namespace
}  // namespace moesim
