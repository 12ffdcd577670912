// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/affinity/clustering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "sim/base/error.h"
#include "sim/trace/synth/random.h"
#include "tests/error_of.h"

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

/// One start by its words: every draw and every step spelled out.
Clustering clustered_plainly(const Points& points, int clusters, std::uint64_t seed, int start) {
  Random random(seed, static_cast<std::uint64_t>(start));
  const auto at = [](int c) { return static_cast<std::size_t>(c); };
  Points centres = {points[random.below(static_cast<std::uint32_t>(points.size()))]};
  while (static_cast<int>(centres.size()) <
         clusters) {  // drawn by squared distance from the nearest
    std::vector<double> weight;
    double sum = 0;
    for (const auto& point : points) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const auto& centre : centres)
        nearest = std::min(nearest, squared_distance(point, centre));
      weight.push_back(nearest);
      sum += nearest;
    }
    double rest = random.uniform() * sum;
    std::size_t chosen = sum > 0 ? 0 : points.size() - 1;
    for (std::size_t i = 0; sum > 0 && i < points.size(); ++i) {
      if (weight[i] == 0) continue;
      chosen = i;
      if ((rest -= weight[i]) < 0) break;
    }
    centres.push_back(points[chosen]);
  }
  std::vector<int> cluster_of(points.size(), -1), before;
  for (int step = 0; step < 100 && cluster_of != before; ++step) {
    before = cluster_of;
    std::vector<int> sizes(at(clusters));
    for (std::size_t i = 0; i < points.size(); ++i) {
      const auto distance = [&](int c) { return squared_distance(points[i], centres[at(c)]); };
      cluster_of[i] = 0;
      for (int c = 1; c < clusters; ++c) {
        if (distance(c) < distance(cluster_of[i])) cluster_of[i] = c;
      }
      ++sizes[at(cluster_of[i])];
    }
    for (int empty = 0; empty < clusters; ++empty) {
      if (sizes[at(empty)] != 0) continue;
      std::size_t farthest = points.size();
      double most = 0;
      for (std::size_t i = 0; i < points.size(); ++i) {
        if (sizes[at(cluster_of[i])] < 2) continue;
        const double distance = squared_distance(points[i], centres[at(cluster_of[i])]);
        if (farthest == points.size() || distance > most) most = distance, farthest = i;
      }
      --sizes[at(cluster_of[farthest])];
      cluster_of[farthest] = empty;
      sizes[at(empty)] = 1;
      centres[at(empty)] = points[farthest];
    }
    for (int c = 0; c < clusters; ++c) {
      for (std::size_t d = 0; d < centres[0].size(); ++d) {
        double sum = 0;
        for (std::size_t i = 0; i < points.size(); ++i)
          sum += cluster_of[i] == c ? points[i][d] : 0;
        centres[at(c)][d] = sum / sizes[at(c)];
      }
    }
  }
  return {cluster_of, centres};
}

TEST(KMeansTest, TakesTheBestOfItsStartsEachByItsWords) {
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed, 77);
    Points points;
    const auto count = 1 + random.below(8);
    for (std::uint32_t i = 0; i < count; ++i) {  // on a grid: ties, and points that coincide
      points.push_back(
          {static_cast<double>(random.below(4)), static_cast<double>(random.below(3))});
    }
    const int clusters = 1 + static_cast<int>(random.below(count));
    const int starts = 1 + static_cast<int>(random.below(4));
    Clustering best;
    double least = std::numeric_limits<double>::infinity();
    for (int start = 0; start < starts; ++start) {
      Clustering one = clustered_plainly(points, clusters, seed, start);
      if (const double sum = inertia(points, one); sum < least) least = sum, best = std::move(one);
    }
    const Clustering found = k_means(points, clusters, seed, starts);
    ASSERT_EQ(found.cluster_of, best.cluster_of) << seed;
    ASSERT_EQ(found.centres, best.centres) << seed;
  }
}

TEST(KMeansTest, RefusesWhatCannotBeClustered) {
  const auto error = [](std::size_t points, int clusters, int starts) {
    return error_of([&] { k_means(Points(points, {0}), clusters, 1, starts); });
  };
  EXPECT_EQ(error(1, 1, 1), "");
  EXPECT_EQ(error(3, 3, 1), "");
  EXPECT_EQ(error(3, 4, 1), "error: 4 clusters of 3 points\n");
  EXPECT_EQ(error(3, 0, 1), "error: 0 clusters of 3 points\n");
  EXPECT_EQ(error(3, 2, 0), "error: 2 clusters of 3 points\n");
  EXPECT_THROW(spectral_clusters(PairMatrix(0), 1, 1), Error);
  EXPECT_EQ(spectral_clusters(PairMatrix(2), 1, 1), (std::vector<int>{0, 0}));
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

TEST(SpectralTest, ExpertsWithoutAnyLinkLieTogether) {
  PairMatrix a(7);
  const auto link = [&](int i, int j, std::int64_t n) {
    a.at(ExpertId(i), ExpertId(j)) = a.at(ExpertId(j), ExpertId(i)) = n;
  };
  link(1, 4, 5);
  link(2, 6, 1000);
  const auto clusters = spectral_clusters(a, 3, 1);  // 0, 3 and 5 are at the origin
  EXPECT_EQ(clusters[1], clusters[4]);
  EXPECT_EQ(clusters[2], clusters[6]);
  EXPECT_EQ(clusters[0], clusters[3]);
  EXPECT_EQ(clusters[0], clusters[5]);
  EXPECT_EQ((std::set<int>{clusters[0], clusters[1], clusters[2]}).size(), 3u);
}

TEST(SpectralTest, CountsNoExpertWithItself) {
  const PairMatrix apart = grouped(48, 3);
  PairMatrix alone = apart;  // a group whose experts would belong to nobody but themselves
  for (int e = 0; e < 48; e += 3) alone.at(ExpertId(e), ExpertId(e)) = 1'000'000'000;
  EXPECT_EQ(spectral_clusters(alone, 3, 1), spectral_clusters(apart, 3, 1));
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
