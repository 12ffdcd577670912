// SPDX-License-Identifier: Apache-2.0
#include "sim/balance/affinity/clustering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"

namespace moesim {
namespace {

double inertia(const Points& points, const Clustering& result) {
  double sum = 0;
  for (std::size_t i = 0; i < points.size(); ++i)
    sum +=
        squared_distance(points[i], result.centres[static_cast<std::size_t>(result.cluster_of[i])]);
  return sum;
}

TEST(KMeansTest, FindsTheBestSplitOfSmallSets) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    Points points;
    for (int i = 0; i < 9; ++i) points.push_back({random.uniform(), random.uniform()});
    double least = std::numeric_limits<double>::infinity();
    for (int mask = 1; mask < 511; ++mask) {  // every split in two
      Points sums(2, {0, 0});
      double sizes[2] = {0, 0};
      for (std::size_t i = 0; i < 9; ++i) {
        const std::size_t c = mask >> i & 1;
        ++sizes[c];
        for (std::size_t d = 0; d < 2; ++d) sums[c][d] += points[i][d];
      }
      double sum = 0;
      for (std::size_t i = 0; i < 9; ++i) {
        const std::size_t c = mask >> i & 1;
        sum += squared_distance(points[i], {sums[c][0] / sizes[c], sums[c][1] / sizes[c]});
      }
      least = std::min(least, sum);
    }
    EXPECT_NEAR(inertia(points, k_means(points, 2, 1, 16)), least, 0.02 * least) << seed;
  }
}

TEST(KMeansTest, SeparatesClearGroupsAndRepeatsItself) {
  Random random(3);
  Points points;
  for (int i = 0; i < 60; ++i) {
    points.push_back({10.0 * (i % 3) + random.uniform(), -5.0 * (i % 3) + random.uniform()});
  }
  const Clustering result = k_means(points, 3, 7);
  for (std::size_t i = 3; i < 60; ++i) EXPECT_EQ(result.cluster_of[i], result.cluster_of[i % 3]);
  EXPECT_EQ(result.cluster_of, k_means(points, 3, 7).cluster_of);
}

TEST(KMeansTest, NoClusterIsEmptyEvenWhenPointsCoincide) {
  const Points same(6, {1, 2});
  const auto clusters = k_means(same, 4, 1).cluster_of;
  EXPECT_EQ(std::set<int>(clusters.begin(), clusters.end()).size(), 4u);
  EXPECT_THROW(k_means(same, 7, 1), Error);
  EXPECT_THROW(k_means(same, 0, 1), Error);
}

/// Experts of group e mod `groups` go together often, others now and then.
PairMatrix grouped(int experts, int groups) {
  Random random(8);
  PairMatrix a(experts);
  for (int i = 0; i < experts; ++i) {
    for (int j = 0; j < i; ++j) {
      const std::int64_t count = (i % groups == j % groups ? 40 : 0) + random.below(8);
      a.at(ExpertId(i), ExpertId(j)) = a.at(ExpertId(j), ExpertId(i)) = count;
    }
  }
  return a;
}

TEST(SpectralTest, FindsHiddenGroups) {
  for (const int groups : {2, 3, 4, 8}) {
    const auto clusters = spectral_clusters(grouped(48, groups), groups, 1);
    std::set<int> distinct;
    for (std::size_t e = 0; e < 48; ++e) {
      EXPECT_EQ(clusters[e], clusters[e % static_cast<std::size_t>(groups)]) << groups;
      distinct.insert(clusters[e]);
    }
    EXPECT_EQ(static_cast<int>(distinct.size()), groups);
  }
}

TEST(SpectralTest, RareExpertsJoinTheirGroupAsFrequentOnesDo) {
  // Three groups e mod 3: experts 0-5 go together often, each later one now and then with them.
  PairMatrix a(30);
  for (int i = 0; i < 30; ++i) {
    for (int j = 0; j < i; ++j) {
      const std::int64_t count = i % 3 != j % 3 ? 0 : i < 6 ? 10'000 : j < 6 ? 3 : 0;
      a.at(ExpertId(i), ExpertId(j)) = a.at(ExpertId(j), ExpertId(i)) = count;
    }
  }
  const auto clusters = spectral_clusters(a, 3, 1);
  for (std::size_t e = 0; e < 30; ++e) EXPECT_EQ(clusters[e], clusters[e % 3]) << e;
}

TEST(SpectralTest, SeparatesPartsWithoutAnyLink) {
  PairMatrix a(5);
  a.at(ExpertId(0), ExpertId(4)) = a.at(ExpertId(4), ExpertId(0)) = 1;
  a.at(ExpertId(1), ExpertId(3)) = a.at(ExpertId(3), ExpertId(1)) = 100;
  a.at(ExpertId(2), ExpertId(2)) = 9;  // the diagonal does not count
  const auto clusters = spectral_clusters(a, 3, 1);
  EXPECT_EQ(clusters[0], clusters[4]);
  EXPECT_EQ(clusters[1], clusters[3]);
  EXPECT_NE(clusters[0], clusters[1]);
  EXPECT_NE(clusters[2], clusters[0]);
  EXPECT_NE(clusters[2], clusters[1]);
}

}  // namespace
}  // namespace moesim
