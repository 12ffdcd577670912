// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/sem_moe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/base/error.h"
#include "tests/balance/affinity/routed.h"

namespace moesim {
namespace {

using ::testing::ElementsAre;

TEST(SemMoeTest, ProfilesCountChoicesPerTokenId) {
  TokenProfile profile(3, std::vector<std::int64_t>(4));
  const Tokens tokens(4, {{0, 1}, {1, 2}, {1, 3}});
  add_to_profile(profile, tokens.rows(), std::vector<int>{2, 0, 2});
  EXPECT_THAT(profile[2], ElementsAre(1, 2, 0, 1));
  EXPECT_THAT(profile[0], ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(profile[1], ElementsAre(0, 0, 0, 0));
  EXPECT_THROW(add_to_profile(profile, tokens.rows(), std::vector<int>{3, 0, 0}), Error);
  EXPECT_THROW(add_to_profile(profile, tokens.rows(), std::vector<int>{0, 0}), Error);
}

TEST(SemMoeTest, RateOfAHandWrittenClustering) {
  const TokenProfile profile = {{6, 2}, {1, 3}, {4, 4}, {0, 0}};
  const CoClusters clusters{.of_expert = {GpuId(0), GpuId(1)},
                            .of_token = {GpuId(0), GpuId(1), GpuId(-1), GpuId(-1)}};
  EXPECT_DOUBLE_EQ(local_activation_rate(profile, clusters), (6 + 3) / 20.0);
}

TEST(SemMoeTest, FindsHiddenClustersAndKeepsThemBalanced) {
  // Token id t and expert e belong together when t = e mod 4; one choice of ten goes astray.
  Random random(4);
  TokenProfile profile(200, std::vector<std::int64_t>(16));
  for (std::size_t t = 0; t < 200; ++t) {
    for (int i = 0; i < 30; ++i) {
      const std::uint32_t group = random.below(10) == 0 ? random.below(4) : t % 4;
      ++profile[t][group + 4 * random.below(4)];
    }
  }
  const CoClusters found = co_cluster(profile, 4);
  for (std::size_t e = 0; e < 16; ++e) EXPECT_EQ(found.of_expert[e], found.of_expert[e % 4]);
  for (std::size_t t = 0; t < 200; ++t) EXPECT_EQ(found.of_token[t], found.of_expert[t % 4]);
  EXPECT_NEAR(local_activation_rate(profile, found), 0.925, 0.02);
}

TEST(SemMoeTest, ClustersHoldEqualExpertsAndNotTooManyChoices) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Random random(seed);
    TokenProfile profile(100, std::vector<std::int64_t>(12));
    std::int64_t total = 0;
    for (auto& row : profile)
      for (auto& count : row) total += count = random.below(20);
    const CoClusters found = co_cluster(profile, 3, 0.05);
    std::vector<std::int64_t> held(3);
    for (std::size_t t = 0; t < profile.size(); ++t)
      for (const auto count : profile[t]) held[found.of_token[t].index()] += count;
    for (int g = 0; g < 3; ++g) {
      EXPECT_EQ(std::count(found.of_expert.begin(), found.of_expert.end(), GpuId(g)), 4);
      EXPECT_LE(static_cast<double>(held[static_cast<std::size_t>(g)]),
                1.05 * static_cast<double>(total) / 3 + 12 * 20);
    }
    EXPECT_GT(local_activation_rate(profile, found), 1.0 / 3);
  }
}

TEST(SemMoeTest, NearsBruteForceOnSmallProfiles) {
  int met = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Random random(seed);
    TokenProfile profile(6, std::vector<std::int64_t>(4));
    for (auto& row : profile)  // token ids of one frequency: balanced is three on each GPU
      for (int i = 0; i < 12; ++i) ++row[random.below(3) == 0 ? random.below(4) : random.below(2)];
    double best = 0;
    for (int tokens = 0; tokens < 64; ++tokens) {
      for (int split = 0; split < 16; ++split) {
        if (__builtin_popcount(static_cast<unsigned>(tokens)) != 3) continue;
        if (__builtin_popcount(static_cast<unsigned>(split)) != 2) continue;
        CoClusters c;
        for (int e = 0; e < 4; ++e) c.of_expert.emplace_back(split >> e & 1);
        for (int t = 0; t < 6; ++t) c.of_token.emplace_back(tokens >> t & 1);
        best = std::max(best, local_activation_rate(profile, c));
      }
    }
    const double rate = local_activation_rate(profile, co_cluster(profile, 2, 0));
    EXPECT_LE(rate, best);
    EXPECT_GE(rate, 0.75 * best) << seed;
    met += rate == best;
  }
  EXPECT_GE(met, 10);
}

TEST(SemMoeTest, RequestsOfABlockSpreadOverAllGpus) {
  const std::vector<std::vector<double>> favour = {{5, 9}, {4, 8}, {1, 1}, {1, 1}, {0, 3}};
  EXPECT_THAT(place_requests(favour, 2),
              ElementsAre(GpuId(1), GpuId(0), GpuId(0), GpuId(1), GpuId(1)));
}

TEST(SemMoeTest, RefusesUnequalShares) {
  EXPECT_THROW(co_cluster(TokenProfile(3, std::vector<std::int64_t>(10)), 4), Error);
  EXPECT_THROW(co_cluster({}, 4), Error);
}

}  // namespace
}  // namespace moesim
