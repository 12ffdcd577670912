// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/grace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "sim/base/error.h"
#include "sim/mechanism/owners.h"
#include "tests/mechanism/placement/affinity/chosen_tokens.h"

namespace moesim {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

std::vector<ExpertId> all_experts(int experts) {
  std::vector<ExpertId> list;
  for (int e = 0; e < experts; ++e) list.emplace_back(e);
  return list;
}

TEST(GraceTest, SizesOfTheReportedModels) {
  EXPECT_EQ(grace_sizes(64, 4), (GroupSizes{.least = 14, .most = 18}));  // 16, 2.4
  EXPECT_EQ(grace_sizes(128, 8), (GroupSizes{.least = 14, .most = 18}));
  EXPECT_EQ(grace_sizes(64, 2), (GroupSizes{.least = 27, .most = 37}));  // 32, 4.8
  EXPECT_EQ(grace_sizes(10, 4), (GroupSizes{.least = 1, .most = 3}));    // 2, at least 1
  EXPECT_EQ(grace_sizes(4, 4), (GroupSizes{.least = 1, .most = 2}));     // none is empty
}

TEST(GraceTest, GroupsKeepTheirSizesAndEveryExpert) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const ChosenTokens tokens(30, uniform_tokens(30, 4, 200, seed));
    const PairMatrix co = co_choices(tokens.rows(), 30);
    for (const int groups : {1, 2, 4, 7, 15, 30}) {
      const GroupSizes sizes = grace_sizes(30, groups);
      const auto found = controlled_groups(co, all_experts(30), groups, sizes, seed);
      EXPECT_EQ(owners_of(found).size(), 30u);
      for (const auto& group : found) {
        EXPECT_GE(static_cast<int>(group.size()), sizes.least);
        EXPECT_LE(static_cast<int>(group.size()), sizes.most);
      }
    }
  }
}

TEST(GraceTest, OverfullGroupsKeepTheirClosestMembers) {
  // {0..5} is one cluster where 4 and 5 are loose; {6, 7} the other. Sizes 3 to 5: one must go, and
  // 5, with less affinity to its group than 4, has some to 6.
  PairMatrix a(8);
  const auto link = [&](int i, int j, std::int64_t n) {
    a.at(ExpertId(i), ExpertId(j)) = a.at(ExpertId(j), ExpertId(i)) = n;
  };
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < i; ++j) link(i, j, 100);
  for (int i = 0; i < 4; ++i) link(4, i, 60), link(5, i, 50);
  link(6, 7, 300);
  link(5, 6, 1);
  auto groups = controlled_groups(a, all_experts(8), 2, {.least = 3, .most = 5}, 1);
  std::sort(groups.begin(), groups.end());
  EXPECT_EQ(groups[0], all_experts(5));
  EXPECT_EQ(groups[1], (std::vector<ExpertId>{ExpertId(5), ExpertId(6), ExpertId(7)}));
}

TEST(GraceTest, RefusesSizesThatCannotBe) {
  const PairMatrix a(8);
  EXPECT_THROW(controlled_groups(a, all_experts(8), 2, {.least = 5, .most = 8}, 1), Error);
  EXPECT_THROW(controlled_groups(a, all_experts(8), 2, {.least = 1, .most = 3}, 1), Error);
  EXPECT_THROW(controlled_groups(a, all_experts(8), 9, {.least = 0, .most = 3}, 1), Error);
}

TEST(GraceTest, HiddenNodesAndGpusAreFound) {
  // Tokens choose inside one of 8 groups (e mod 8) and now and then in its neighbour (e mod
  // 8) ^ 1.
  std::vector<std::vector<int>> chosen;
  Random random(2);
  for (int t = 0; t < 2000; ++t) {
    const int group = static_cast<int>(random.below(8));
    const int first = static_cast<int>(random.below(4)) * 8;
    const int other = random.below(4) == 0 ? group ^ 1 : group;
    chosen.push_back({first + group, (first + 8) % 32 + other});
  }
  const ChosenTokens tokens(32, chosen);
  const SlotTable table = place_grace(co_choices(tokens.rows(), 32), 4, 2);
  const auto gpu_of = owners_of(table);
  for (std::size_t e = 0; e < 32; ++e) {
    EXPECT_EQ(gpu_of[e], gpu_of[e % 8]) << e;
    EXPECT_EQ(gpu_of[e].value / 2, gpu_of[(e % 8) ^ 1].value / 2) << e;
  }
}

// Four GPUs with loads 10, 40, 20, 10; the second has experts of 15, 10, 8 and 7.
const std::vector<std::int64_t> oracle_loads = {10, 7, 15, 8, 10, 20, 10};
const SlotTable oracle_table = {{ExpertId(0)},
                                {ExpertId(1), ExpertId(2), ExpertId(3), ExpertId(4)},
                                {ExpertId(5)},
                                {ExpertId(6)}};

TEST(GraceTest, CopiesOfTheWorkedExample) {
  const GraceReplicas r = replicate_grace(oracle_loads, oracle_table);
  EXPECT_THAT(r.experts, ElementsAre(ExpertId(2), ExpertId(4), ExpertId(3)));
  EXPECT_THAT(r.gpus, ElementsAre(GpuId(0), GpuId(3)));
  EXPECT_THAT(r.predicted, ElementsAre(21, 18, 20, 21));
  const auto published = replicate_grace(oracle_loads, oracle_table, GraceCopyLoad::published);
  EXPECT_EQ(published.experts, r.experts);
  EXPECT_THAT(published.predicted,
              Pointwise(DoubleNear(1e-9),
                        std::vector<double>{10 + 40 / 3.0, 7 + 40 / 3.0, 20, 10 + 40 / 3.0}));
  const SlotTable copied = with_replicas(oracle_table, r);
  EXPECT_EQ(copied[1], oracle_table[1]);
  EXPECT_THAT(copied[3], ElementsAre(ExpertId(6), ExpertId(2), ExpertId(4), ExpertId(3)));
}

TEST(GraceTest, CopiesConserveTheLoad) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    std::vector<std::int64_t> loads(24);
    for (auto& load : loads) load = random.below(1000);
    const SlotTable table = contiguous_placement(24, 6, 6).table();
    const GraceReplicas r = replicate_grace(loads, table);
    const double sum = std::accumulate(r.predicted.begin(), r.predicted.end(), 0.0);
    EXPECT_NEAR(sum, static_cast<double>(std::accumulate(loads.begin(), loads.end(), 0L)), 1e-6);
    EXPECT_FALSE(r.experts.empty());
    EXPECT_EQ(Placement(24, with_replicas(table, r)).slots(),
              24 + static_cast<int>(r.experts.size() * r.gpus.size()));
  }
}

TEST(GraceTest, NothingToCopyWithoutLoadOrOtherGpus) {
  EXPECT_TRUE(replicate_grace(std::vector<std::int64_t>(7), oracle_table).experts.empty());
  const SlotTable one = {{ExpertId(0), ExpertId(1)}};
  EXPECT_TRUE(replicate_grace(std::vector<std::int64_t>{3, 4}, one).gpus.empty());
}

TEST(GraceTest, WeightsAreInverseLoadsAmongTheHoldersInUse) {
  const std::vector<GpuId> holders = {GpuId(0), GpuId(1), GpuId(3)};
  const std::vector<double> load = {10, 20, 5, 40};
  const auto all = [&](int source) {
    return grace_weights(GpuId(source), holders, load, 2, GraceChoice::weighted);
  };
  const auto near = [&](int source) {
    return grace_weights(GpuId(source), holders, load, 2, GraceChoice::topology_aware);
  };
  EXPECT_THAT(all(0), Pointwise(DoubleNear(1e-12), std::vector<double>{4 / 7.0, 2 / 7.0, 1 / 7.0}));
  EXPECT_EQ(all(2), all(0));
  EXPECT_THAT(near(0), ElementsAre(1, 0, 0));
  EXPECT_THAT(near(2), ElementsAre(0, 0, 1));  // same node
  EXPECT_THAT(grace_weights(GpuId(5), holders, load, 2, GraceChoice::topology_aware), all(5));
  EXPECT_THAT(grace_weights(GpuId(2), std::vector{GpuId(0), GpuId(1)}, load, 2,
                            GraceChoice::topology_aware),
              Pointwise(DoubleNear(1e-12), std::vector<double>{2 / 3.0, 1 / 3.0}));
  const std::vector<double> idle = {10, 0, 5, 0};
  EXPECT_THAT(grace_weights(GpuId(0), holders, idle, 2, GraceChoice::weighted),
              ElementsAre(0, 0.5, 0.5));
}

TEST(GraceTest, SharesFollowTheWeightsSmoothly) {
  const SlotTable table = {{ExpertId(0), ExpertId(1)}, {ExpertId(0)}};
  const Placement placement(2, table);
  const std::vector<double> load = {30, 10};  // weights 1/4 and 3/4
  const auto shares = grace_shares(placement, load, 1, GraceChoice::weighted, 8);
  const auto slot = [](int s, std::int64_t n) { return Share{SlotId(s), n}; };
  EXPECT_THAT(shares[0][0],
              ElementsAre(slot(2, 1), slot(0, 1), slot(2, 3), slot(0, 1), slot(2, 2)));
  EXPECT_THAT(shares[1][1], ElementsAre(slot(1, 1)));
  const auto near = grace_shares(placement, load, 1, GraceChoice::topology_aware, 8);
  EXPECT_THAT(near[0][0], ElementsAre(slot(0, 1)));
  EXPECT_THAT(near[1][0], ElementsAre(slot(2, 1)));
  EXPECT_NO_THROW(Assignment(placement, shares));
}

TEST(GraceTest, EveryPeriodOfSharesIsWithinOneOfItsWeights) {
  const SlotTable table(5, {ExpertId(0)});
  const Placement placement(1, table);
  const std::vector<double> load = {3, 1, 4, 1.5, 9};
  const auto shares = grace_shares(placement, load, 5, GraceChoice::weighted, 100)[0][0];
  const auto weights =
      grace_weights(GpuId(0), std::vector{GpuId(0), GpuId(1), GpuId(2), GpuId(3), GpuId(4)}, load,
                    5, GraceChoice::weighted);
  std::vector<double> counts(5);
  for (const Share& share : shares) counts[share.slot.index()] += static_cast<double>(share.count);
  for (std::size_t s = 0; s < 5; ++s) EXPECT_NEAR(counts[s], 100 * weights[s], 1);
}

}  // namespace
}  // namespace moesim
